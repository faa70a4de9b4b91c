// The test of the tester: cases that must fail do fail, with the message that says why.
#pragma once

namespace moec::ir_test {

// Prints what is wrong; 0 when nothing is, else 1.
int self_test();

}  // namespace moec::ir_test
