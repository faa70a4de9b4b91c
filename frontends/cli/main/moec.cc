#include "frontends/cli/standard_streams.h"

int main(int argc, char** argv) {
  moec::open_standard_descriptors();
  return moec::run_and_flush(argc, argv);
}
