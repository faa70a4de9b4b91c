#include "backends/files/process.h"
#include "frontends/cli/standard_streams.h"

int main(int argc, char** argv) {
  moec::set_up_process();
  return moec::run_and_flush(argc, argv);
}
