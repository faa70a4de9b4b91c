// Tests the runner: checks that cases that must fail do fail, with the expected messages.
#pragma once

namespace moec::ir_test {

// Prints unexpected results; returns 0 if there are none, else 1.
int self_test();

}  // namespace moec::ir_test
