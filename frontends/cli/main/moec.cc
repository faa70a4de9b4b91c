#include "backends/files/process.h"
#include "frontends/cli/standard_streams.h"

int main(int argc, char** argv) {
  // Called first: a file opened earlier could get the descriptor of a closed standard stream, and
  // printed text would go into the file.
  moec::set_up_process();
  return moec::run_and_flush(argc, argv);
}
