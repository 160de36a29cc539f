/* The start on QEMU's aarch64 machine `virt`, at EL1: vector registers on, memory of the RAM normal
 * and cached, since unaligned accesses to device memory fault. */
.section .start, "ax"
.globl _start
_start:
    mov x0, #(3 << 20)
    msr cpacr_el1, x0
    isb
    adrp x0, table
    add x0, x0, :lo12:table
    mov x1, #0x401              /* device memory, from 0 */
    str x1, [x0]
    mov x1, #0x40000000
    add x1, x1, #0x705          /* normal memory: block, attribute 1, inner shareable, accessed */
    str x1, [x0, #8]
    msr ttbr0_el1, x0
    mov x0, #0xff00             /* attribute 0: device; 1: write back */
    msr mair_el1, x0
    ldr x0, =0x280803519        /* 39 bits of addresses, 4 KiB pages, walks cached, no second table */
    msr tcr_el1, x0
    isb
    mrs x0, sctlr_el1
    mov x1, #0x1005             /* translation and caches */
    orr x0, x0, x1
    msr sctlr_el1, x0
    isb
    adrp x0, stack_end
    add sp, x0, :lo12:stack_end
    bl main
    bl board_exit

.text
.globl board_semihost
board_semihost:
    hlt #0xf000
    ret

.bss
.balign 4096
table:
    .skip 4096
    .skip 1 << 20
stack_end:
