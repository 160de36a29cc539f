/* The start on QEMU's riscv64 machine `virt`, in machine mode: float and vector registers on. */
.section .start, "ax"
.globl _start
_start:
    li t0, 0x2200               /* mstatus: FS and VS initial */
    csrs mstatus, t0
    la sp, stack_end
    call main
    call board_exit

.text
.globl board_semihost
.balign 16
board_semihost:
    .option push
    .option norvc
    slli zero, zero, 0x1f
    ebreak
    srai zero, zero, 7
    .option pop
    ret

.bss
.balign 64
    .skip 1 << 20
stack_end:
