#include "frontends/cli/cli.h"

int main(int argc, char** argv) { return moec::run_cli(argc, argv); }
