// SPDX-License-Identifier: Apache-2.0
// Names the printers in the section that gdb looks at when it loads a program: the target lodtensor::gdb compiles this
// file into the program, with the path in LOD_GDB_SCRIPT. A 1 says that a file of Python is named.
asm(".pushsection \".debug_gdb_scripts\", \"MS\",%progbits,1\n"
    ".byte 1\n"
    ".asciz \"" LOD_GDB_SCRIPT
    "\"\n"
    ".popsection");
