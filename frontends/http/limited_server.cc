#include "frontends/http/limited_server.h"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string_view>

#include "ir/base/parse_number.h"
#include "ir/base/refusals.h"

namespace moec {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kPollMoment{100};  // maximum delay until finish() is noticed
constexpr int kRequestsOfConnection = 1000;
constexpr milliseconds kLinger{1000};
// Maximum bytes on the wire per piece of a chunked body in addition to its data: a length, possibly
// with leading zeros, and two line ends.
constexpr uint64_t kPieceFraming = 16;

// One connection. Buffers reads, because the library reads single bytes and would need a system
// call for each.
class ClientStream final : public httplib::Stream {
 public:
  ClientStream(socket_t socket, const HttpLimits& limits, const std::atomic<bool>& finishing)
      : socket_(socket), limits_(limits), finishing_(finishing) {}

  // Waits for the first byte of the next request. Returns false if no further request can arrive.
  bool wait_for_request() {
    const auto until = steady_clock::now() + limits_.idle;
    while (begin_ == end_) {
      if (finishing_ || steady_clock::now() > until) return false;
      if (is_ready(POLLIN, kPollMoment) && !fill()) return false;
    }
    // The limits count per request, so they start at its first byte.
    read_ = 0;
    framing_ = kPieceFraming;  // of the next piece
    in_head_ = true;
    deadline_ = steady_clock::now() + limits_.deadline;
    return true;
  }

  // True if the connection can no longer be used for sending.
  bool spent() const { return spent_; }
  void make_last() { last_ = true; }
  bool is_last() const { return last_; }
  void end_head() { in_head_ = false; }
  // Called per piece of the body that has arrived.
  void allow_framing() { framing_ += kPieceFraming; }

  bool client_left() const {
    char next = 0;
    // A closed connection yields 0 bytes. Buffered bytes mean that the client has sent more.
    return begin_ == end_ && ::recv(socket_, &next, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
  }

  // Sends a response directly, without the library.
  void refuse(std::string_view status, std::string_view code, std::string_view message) {
    if (spent_) return;
    // The texts contain no quotes, so they need no escaping.
    const std::string body = fmt::format(
        R"({{"error":{{"message":"{}","type":"invalid_request_error","param":null,"code":"{}"}}}})",
        message, code);
    httplib::Stream::write(
        fmt::format("HTTP/1.1 {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n"
                    "Connection: close\r\n\r\n{}",
                    status, body.size(), body));
    // The request was not read to its end, so its rest would be parsed as the next request.
    spent_ = true;
  }

  // Closes the connection. Discards input for `linger` first: closing a socket with unread data
  // resets the connection, and a client that still sends would lose the response.
  // Sends FIN first, so that the client sees the end of the response while its input is drained.
  void close(milliseconds linger) {
    ::shutdown(socket_, SHUT_WR);
    const auto until = steady_clock::now() + linger;
    while (steady_clock::now() < until && is_ready(POLLIN, kPollMoment))
      // MSG_DONTWAIT, because poll() may report readiness without data.
      if (::recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT) <= 0) break;
    ::close(socket_);
  }

  ssize_t read(char* to, size_t size) override {
    if (begin_ == end_ && !wait_to_read()) return -1;
    const size_t count = std::min(size, end_ - begin_);
    std::copy_n(buffer_.data() + begin_, count, to);
    begin_ += count;
    read_ += count;
    // Checked after each read, because a chunked body announces no length.
    if (read_ > most_bytes()) return refuse_size();
    return static_cast<ssize_t>(count);
  }

  // Sends all bytes, as the library expects. Gives up if the client accepts no bytes within the
  // deadline.
  ssize_t write(const char* from, size_t size) override {
    for (size_t sent = 0; sent < size;) {
      if (spent_ || !is_ready(POLLOUT, limits_.deadline)) return spend();
      // MSG_NOSIGNAL: a client that has left would otherwise end the process with SIGPIPE.
      const ssize_t count = ::send(socket_, from + sent, size - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      // EAGAIN after a successful poll is possible; the next iteration waits again.
      if (count > 0)
        sent += static_cast<size_t>(count);
      else if (errno != EAGAIN && errno != EINTR)
        return spend();
    }
    return static_cast<ssize_t>(size);
  }

  bool is_readable() const override { return begin_ < end_ || is_ready(POLLIN, limits_.deadline); }
  bool is_writable() const override {
    return !spent_ && is_ready(POLLOUT, limits_.deadline) && !client_left();
  }
  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    name_of(::getpeername, ip, port);
  }
  void get_local_ip_and_port(std::string& ip, int& port) const override {
    name_of(::getsockname, ip, port);
  }
  socket_t socket() const override { return socket_; }

 private:
  // Maximum bytes on the wire. The framing of a chunked body does not count towards most_body, and
  // grows with its pieces, so that a client cannot send lengths without data. read_body() checks
  // the exact size.
  uint64_t most_bytes() const {
    return in_head_ ? limits_.most_head : limits_.most_head + limits_.most_body + framing_;
  }

  ssize_t refuse_size() {
    if (in_head_)
      refuse("431 Request Header Fields Too Large", "serve.too_large",
             fmt::format("the head of the request has more than {} bytes", limits_.most_head));
    else
      refuse("413 Payload Too Large", "serve.too_large",
             fmt::format("the body has more than {} bytes", limits_.most_body));
    return -1;
  }

  bool wait_to_read() {
    while (!finishing_ && steady_clock::now() < deadline_)
      if (is_ready(POLLIN, kPollMoment)) return fill();
    if (!finishing_)
      refuse("408 Request Timeout", "serve.too_slow",
             fmt::format("the request did not arrive within {} s",
                         std::chrono::duration<double>(limits_.deadline).count()));
    return false;
  }

  bool fill() {
    const ssize_t count = ::recv(socket_, buffer_.data(), buffer_.size(), 0);
    begin_ = 0;
    end_ = count > 0 ? static_cast<size_t>(count) : 0;
    return count > 0 || spend() > 0;
  }

  ssize_t spend() {
    spent_ = true;
    return -1;
  }

  bool is_ready(short event, milliseconds most) const {
    pollfd descriptor{socket_, event, 0};
    int ready = 0;
    do {
      // A signal interrupts poll(); the wait then starts again.
      ready = ::poll(&descriptor, 1, static_cast<int>(most.count()));
    } while (ready < 0 && errno == EINTR);
    return ready > 0;
  }

  template <class Ask>
  void name_of(Ask ask, std::string& ip, int& port) const {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    std::array<char, NI_MAXHOST> host{};
    std::array<char, NI_MAXSERV> service{};
    if (ask(socket_, generic, &size) != 0 ||
        ::getnameinfo(generic, size, host.data(), host.size(), service.data(), service.size(),
                      NI_NUMERICHOST | NI_NUMERICSERV) != 0)
      return;
    ip = host.data();
    port = std::atoi(service.data());
  }

  const socket_t socket_;
  const HttpLimits& limits_;
  const std::atomic<bool>& finishing_;
  std::array<char, 16 << 10> buffer_{};
  size_t begin_ = 0, end_ = 0;  // unread range of the buffer
  uint64_t read_ = 0;           // bytes of the current request
  uint64_t framing_ = 0;        // bytes of it that may be framing
  bool in_head_ = true, spent_ = false, last_ = false;
  steady_clock::time_point deadline_;
};

thread_local ClientStream* current_stream = nullptr;
// True while this thread accepts a connection only to reject it.
thread_local bool refusing = false;

class Workers final : public httplib::TaskQueue {
 public:
  // Threads may be limited by the system; fewer workers than requested still serve.
  Workers(const HttpLimits& limits, std::atomic<bool>& none) : waiting_(limits.waiting) {
    for (int64_t i = 0; i < limits.connections; ++i)
      if (!threads_.start([this] { work(); })) break;
    none = threads_.size() == 0;
  }

  void enqueue(std::function<void()> task) override {
    {
      const std::lock_guard lock(mutex_);
      // Idle workers take a task at once, so they extend the queue.
      if (threads_.size() > 0 && std::ssize(tasks_) < waiting_ + idle_) {
        tasks_.push_back(std::move(task));
        changed_.notify_one();
        return;
      }
    }
    // Runs on the accepting thread, which `refusing` marks for process_and_close_socket().
    refusing = true;
    task();
    refusing = false;
  }

  void shutdown() override {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    threads_.join();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      ++idle_;
      changed_.wait(lock, [this] { return over_ || !tasks_.empty(); });
      --idle_;
      // Queued tasks are finished even after shutdown(), so every accepted socket is closed.
      if (tasks_.empty()) return;
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      // Unlocked while the task runs, because it lasts as long as a connection.
      lock.unlock();
      task();
      lock.lock();
    }
  }

  const int64_t waiting_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  int64_t idle_ = 0;  // threads that wait for a task
  bool over_ = false;
  ThreadGroup threads_;  // last member, because it uses all other members
};

}  // namespace

LimitedServer::LimitedServer(const HttpLimits& limits) : limits_(limits) {
  set_payload_max_length(limits.most_body);
  // Small events of a stream must not wait for more data.
  set_tcp_nodelay(true);
  new_task_queue = [this] {
    auto* workers = new Workers(limits_, no_threads_);  // the library takes ownership
    // stop() makes the library leave its loop, so that serve() can report the error.
    if (no_threads_) stop();
    return workers;
  };
}

Status LimitedServer::serve() {
  // The library creates the workers here. Without a worker, no request would ever be answered.
  const bool served = listen_after_bind();
  if (no_threads_)
    return fail("system.resource", "the system cannot create a thread for connections",
                "raise the limit on threads (ulimit -u), or end other programs");
  if (served || finishing_) return {};
  return fail("serve.address", "the server could not accept connections", "start the server again");
}

void LimitedServer::finish() {
  finishing_ = true;
  stop();
}

void LimitedServer::end_connection() {
  if (current_stream) current_stream->make_last();
}

bool LimitedServer::client_left() { return current_stream && current_stream->client_left(); }

Result<std::string> LimitedServer::read_body(const httplib::Request& request,
                                             const httplib::ContentReader& reader) const {
  std::string body;
  const auto announced = parse_number<uint64_t>(request.get_header_value("Content-Length"));
  bool too_large = announced && *announced > limits_.most_body;
  const bool whole = !too_large && reader([&](const char* data, size_t size) {
    if (current_stream) current_stream->allow_framing();
    // The subtraction cannot wrap around, because `body` never exceeds the limit.
    too_large = size > limits_.most_body - body.size();
    if (!too_large) body.append(data, size);
    return !too_large;
  });
  if (!whole) end_connection();
  if (too_large)
    return fail("serve.too_large",
                fmt::format("the body has more than {} bytes", limits_.most_body),
                "send less, or start the server with a larger --max-body");
  if (!whole) return fail("serve.body", "the body did not arrive completely");
  return body;
}

bool LimitedServer::process_and_close_socket(socket_t socket) {
  ClientStream stream(socket, limits_, finishing_);
  if (refusing)
    stream.refuse("503 Service Unavailable", "serve.busy", "the queue of connections is full");
  current_stream = &stream;
  for (int left = kRequestsOfConnection; left > 0 && !stream.spent(); --left) {
    if (!stream.wait_for_request()) break;
    bool closed = false;
    const auto prepare = [&stream](httplib::Request& request) {
      stream.end_head();
      // Disables ranges and compression of responses.
      request.ranges.clear();
      request.headers.erase("Accept-Encoding");
    };
    if (!process_request(stream, left == 1 || finishing_, closed, prepare) || closed ||
        stream.is_last())
      break;
  }
  current_stream = nullptr;
  // A rejection runs on the only accepting thread, which must not linger.
  stream.close(refusing ? milliseconds(0) : kLinger);
  return true;
}

}  // namespace moec
