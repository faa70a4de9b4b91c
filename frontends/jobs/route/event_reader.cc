#include "frontends/jobs/route/event_reader.h"

#include <algorithm>

namespace moec {
namespace {

// The lines of an event that begin with "data:", joined by newlines.
std::string data_of(std::string_view event) {
  std::string data;
  bool found = false;
  while (!event.empty()) {
    const size_t end = std::min(event.find('\n'), event.size());
    std::string_view line = event.substr(0, end);
    event.remove_prefix(std::min(end + 1, event.size()));
    if (!line.starts_with("data:")) continue;
    line.remove_prefix(5);
    if (line.starts_with(' ')) line.remove_prefix(1);
    if (found) data += '\n';
    data += line;
    found = true;
  }
  return data;
}

}  // namespace

bool EventReader::add(std::string_view bytes,
                      const std::function<bool(std::string_view data)>& take) {
  // Servers may end lines with \r\n.
  std::copy_if(bytes.begin(), bytes.end(), std::back_inserter(pending_),
               [](char byte) { return byte != '\r'; });
  size_t begin = 0;
  for (size_t end = pending_.find("\n\n"); end != std::string::npos;
       end = pending_.find("\n\n", begin)) {
    const std::string data = data_of(std::string_view(pending_).substr(begin, end - begin));
    begin = end + 2;
    if (!data.empty() && !take(data)) return false;
  }
  pending_.erase(0, begin);
  return pending_.size() <= kMaxEvent;
}

}  // namespace moec
