// The bytes of a file in a program's read-only data: KUMIKO_EMBEDDED_FILE(name, "path") declares `name` and `name_end`, between which
// they lie, aligned to 16. One source file of the program says so; the assembler copies the file.
#pragma once

#define KUMIKO_EMBEDDED_FILE(name, file)                                                                               \
    asm(".pushsection .rodata\n"                                                                                       \
        ".balign 16\n" #name ":\n"                                                                                     \
        ".incbin \"" file "\"\n" #name "_end:\n"                                                                       \
        ".byte 0\n"                                                                                                    \
        ".globl " #name "\n"                                                                                           \
        ".globl " #name "_end\n"                                                                                       \
        ".hidden " #name "\n"                                                                                          \
        ".hidden " #name "_end\n"                                                                                      \
        ".popsection\n");                                                                                              \
    extern "C" __attribute__((visibility("hidden"))) const char name[], name##_end[];
