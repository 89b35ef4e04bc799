#!/bin/bash
# The program with --device cuda: what it says of the device, and that it answers as on the CPU;
# memory that is too small is a message, and the shell goes on.
. tests/commands/common.bash
