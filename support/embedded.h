// Embeds a file in a program's read-only data: KUMIKO_EMBEDDED_FILE(name, "path") defines the
// symbols `name` and `name_end` around its bytes, aligned to 16. Use it in one source file; the
// assembler includes the file.
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
