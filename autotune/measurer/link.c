#define _GNU_SOURCE
#include "autotune/measurer/link.h"

#include "runtime/kumiko_runtime.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const struct {
    const char *name;
    void *address;
} runtime_functions[] = {
    {"kumiko_parallel_for", (void *)kumiko_parallel_for},
    {"kumiko_malloc", (void *)kumiko_malloc},
    {"kumiko_free", (void *)kumiko_free},
    {"kumiko_fail", (void *)kumiko_fail},
};

enum { PAGE = 4096, STUB = 16 };

static const measurer_function *given_functions;
static void **given_addresses;
static size_t given_count;

int load_functions(const measurer_function *functions, size_t count, char *text, size_t text_bytes) {
    given_addresses = calloc(count + 1, sizeof *given_addresses);
    if (!given_addresses) {
        snprintf(text, text_bytes, "there is no memory for the extern functions");
        return 1;
    }
    for (size_t i = 0; i < count; i++) {
        struct link_map *map;
        void *library = dlopen(*functions[i].file ? functions[i].file : NULL, RTLD_NOW);
        if (!library || dlinfo(library, RTLD_DI_LINKMAP, &map)) {
            snprintf(text, text_bytes,
                     "the library of the extern function %s cannot be loaded: %s. Link it with what it needs, or begin "
                     "main with kumiko::act_as_measurer(argc, argv)",
                     functions[i].symbol, dlerror());
            return 1;
        }
        given_addresses[i] = (void *)(map->l_addr + functions[i].offset);
        Dl_info info;
        if (!dladdr(given_addresses[i], &info) || memcmp(given_addresses[i], functions[i].code, MEASURER_CODE) != 0) {
            snprintf(text, text_bytes, "the file of the extern function %s was changed since it was loaded",
                     functions[i].symbol);
            return 1;
        }
    }
    given_functions = functions;
    given_count = count;
    return 0;
}

static void *find_function(const char *name) {
    static void *math;
    for (size_t i = 0; i < given_count; i++) {
        if (strcmp(given_functions[i].symbol, name) == 0) return given_addresses[i];
    }
    for (size_t i = 0; i < sizeof runtime_functions / sizeof *runtime_functions; i++) {
        if (strcmp(runtime_functions[i].name, name) == 0) return runtime_functions[i].address;
    }
    void *found = dlsym(RTLD_DEFAULT, name);
    if (!found) {
        if (!math) math = dlopen("libm.so.6", RTLD_NOW);
        if (math) found = dlsym(math, name);
    }
    return found;
}

typedef struct {
    const uint8_t *bytes;
    size_t size;
    const Elf64_Ehdr *header;
    const Elf64_Shdr *sections;
    const Elf64_Sym *symbols;
    size_t symbol_count;
    const char *names;
    size_t names_size;
    uint8_t **placed;    /* by section: address of its bytes, or NULL */
    uint8_t **addresses; /* by symbol: its address */
    uint8_t *stubs;      /* by symbol: jmp *slot */
    uint64_t *slots;     /* by symbol: the address for the stub, 8 bytes */
    char *text;
    size_t text_bytes;
} linker;

static int fail(linker *l, const char *what, const char *name) {
    snprintf(l->text, l->text_bytes, "%s%s%s", what, *name ? " " : "", name);
    return 1;
}

static int inside(const linker *l, uint64_t offset, uint64_t size) {
    return offset <= l->size && size <= l->size - offset;
}

static const char *symbol_name(const linker *l, size_t i) {
    return l->symbols[i].st_name < l->names_size ? l->names + l->symbols[i].st_name : "";
}

static int read_tables(linker *l) {
    const Elf64_Ehdr *h = l->header = (const Elf64_Ehdr *)l->bytes;
    if (l->size < sizeof *h || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 || h->e_ident[EI_CLASS] != ELFCLASS64 ||
        h->e_type != ET_REL) {
        return fail(l, "not a 64-bit ELF object", "");
    }
    if (h->e_machine != EM_X86_64) return fail(l, "an object for another processor than x86-64", "");
    if (h->e_shentsize != sizeof(Elf64_Shdr) || !inside(l, h->e_shoff, (uint64_t)h->e_shnum * sizeof(Elf64_Shdr))) {
        return fail(l, "the object's section table is broken", "");
    }
    l->sections = (const Elf64_Shdr *)(l->bytes + h->e_shoff);
    for (size_t s = 0; s < h->e_shnum; s++) {
        const Elf64_Shdr *section = &l->sections[s];
        if (section->sh_type != SHT_NOBITS && !inside(l, section->sh_offset, section->sh_size)) {
            return fail(l, "a section of the object reaches beyond its end", "");
        }
        if (section->sh_type == SHT_SYMTAB) {
            if (section->sh_link >= h->e_shnum) return fail(l, "the object's symbol table is broken", "");
            l->symbols = (const Elf64_Sym *)(l->bytes + section->sh_offset);
            l->symbol_count = section->sh_size / sizeof(Elf64_Sym);
            l->names = (const char *)l->bytes + l->sections[section->sh_link].sh_offset;
            l->names_size = l->sections[section->sh_link].sh_size;
        }
    }
    return l->symbols ? 0 : fail(l, "the object has no symbols", "");
}

/* Unwind tables are omitted: no exception passes through a kernel. */
static int wanted(const Elf64_Shdr *section) {
    return (section->sh_flags & SHF_ALLOC) && section->sh_size > 0 &&
           (section->sh_type == SHT_PROGBITS || section->sh_type == SHT_NOBITS);
}

static size_t align_up(size_t n, size_t to) { return to > 1 ? (n + to - 1) / to * to : n; }

/* Lays out code first, then all other sections, so that two protection ranges suffice. Returns the
 * size; copies the sections if `base` is given. */
static size_t lay_out(linker *l, uint8_t *base, size_t *code_bytes) {
    size_t at = 0;
    for (int code = 1; code >= 0; code--) {
        for (size_t s = 0; s < l->header->e_shnum; s++) {
            const Elf64_Shdr *section = &l->sections[s];
            if (!wanted(section) || !!(section->sh_flags & SHF_EXECINSTR) != code) continue;
            at = align_up(at, section->sh_addralign);
            if (base) {
                l->placed[s] = base + at;
                if (section->sh_type == SHT_PROGBITS)
                    memcpy(base + at, l->bytes + section->sh_offset, section->sh_size);
            }
            at += section->sh_size;
        }
        at = align_up(at, STUB);
        if (code) {
            if (base) l->stubs = base + at;
            at = align_up(at + l->symbol_count * STUB, PAGE);
            *code_bytes = at;
        } else {
            if (base) l->slots = (uint64_t *)(base + at);
            at = align_up(at + l->symbol_count * sizeof(uint64_t), PAGE);
        }
    }
    return at;
}

static int resolve(linker *l) {
    for (size_t i = 1; i < l->symbol_count; i++) {
        const Elf64_Sym *symbol = &l->symbols[i];
        const char *name = symbol_name(l, i);
        if (symbol->st_shndx == SHN_UNDEF) {
            l->addresses[i] = find_function(name);
            if (!l->addresses[i] && ELF64_ST_BIND(symbol->st_info) != STB_WEAK)
                return fail(l, "undefined function", name);
        } else if (symbol->st_shndx == SHN_ABS) {
            l->addresses[i] = (uint8_t *)symbol->st_value;
        } else if (symbol->st_shndx < l->header->e_shnum) {
            if (l->placed[symbol->st_shndx]) l->addresses[i] = l->placed[symbol->st_shndx] + symbol->st_value;
        } else {
            return fail(l, "an unknown kind of symbol:", name);
        }
        l->slots[i] = (uint64_t)l->addresses[i];
        uint8_t *stub = l->stubs + i * STUB; /* jmp *slot(%rip) */
        const int32_t distance = (int32_t)((uint8_t *)&l->slots[i] - (stub + 6));
        stub[0] = 0xff;
        stub[1] = 0x25;
        memcpy(stub + 2, &distance, 4);
    }
    return 0;
}

static int relocate_one(linker *l, uint8_t *target, const Elf64_Rela *r) {
    const size_t i = ELF64_R_SYM(r->r_info);
    const uint32_t type = ELF64_R_TYPE(r->r_info);
    if (i >= l->symbol_count) return fail(l, "a relocation names no symbol", "");
    uint8_t *place = target + r->r_offset;
    const uint64_t symbol = (uint64_t)l->addresses[i];
    int64_t value;
    switch (type) {
    case R_X86_64_NONE:
        return 0;
    case R_X86_64_64:
        value = (int64_t)(symbol + r->r_addend);
        memcpy(place, &value, 8);
        return 0;
    case R_X86_64_PC64:
        value = (int64_t)(symbol + r->r_addend - (uint64_t)place);
        memcpy(place, &value, 8);
        return 0;
    case R_X86_64_PC32:
    case R_X86_64_PLT32:
        value = (int64_t)(symbol + r->r_addend - (uint64_t)place);
        if (l->symbols[i].st_shndx == SHN_UNDEF)
            value = (int64_t)((uint64_t)(l->stubs + i * STUB) + r->r_addend - (uint64_t)place);
        break;
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX:
        value = (int64_t)((uint64_t)&l->slots[i] + r->r_addend - (uint64_t)place);
        break;
    default: {
        char number[64];
        snprintf(number, sizeof number, "%u against %s", type, symbol_name(l, i));
        return fail(l, "an unknown relocation:", number);
    }
    }
    if (value != (int32_t)value) return fail(l, "a relocation is out of range", symbol_name(l, i));
    const int32_t narrow = (int32_t)value;
    memcpy(place, &narrow, 4);
    return 0;
}

static int relocate(linker *l) {
    for (size_t s = 0; s < l->header->e_shnum; s++) {
        const Elf64_Shdr *section = &l->sections[s];
        if (section->sh_type != SHT_RELA || section->sh_info >= l->header->e_shnum) continue;
        uint8_t *target = l->placed[section->sh_info];
        if (!target) continue;
        const Elf64_Rela *r = (const Elf64_Rela *)(l->bytes + section->sh_offset);
        for (size_t n = section->sh_size / sizeof *r; n > 0; n--, r++) {
            if (r->r_offset + 4 > l->sections[section->sh_info].sh_size)
                return fail(l, "a relocation outside its section", "");
            if (relocate_one(l, target, r)) return 1;
        }
    }
    return 0;
}

int link_object(const void *object, size_t bytes, const char *const *names, size_t count, linked_image *image,
                char *text, size_t text_bytes) {
    linker l = {.bytes = object, .size = bytes, .text = text, .text_bytes = text_bytes};
    memset(image, 0, sizeof *image);
    if (read_tables(&l)) return 1;
    l.placed = calloc(l.header->e_shnum, sizeof *l.placed);
    l.addresses = calloc(l.symbol_count, sizeof *l.addresses);
    size_t code_bytes = 0;
    const size_t size = lay_out(&l, NULL, &code_bytes);
    int failed = !l.placed || !l.addresses ? fail(&l, "out of memory", "") : 0;
    if (!failed) {
        void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (base == MAP_FAILED) {
            failed = fail(&l, "out of memory", "");
        } else {
            image->base = base;
            image->bytes = size;
            lay_out(&l, base, &code_bytes);
            failed = resolve(&l) || relocate(&l);
            if (!failed && mprotect(base, code_bytes, PROT_READ | PROT_EXEC))
                failed = fail(&l, "code cannot be made executable", "");
        }
    }
    for (size_t n = 0; !failed && n < count; n++) {
        for (size_t i = 1; i < l.symbol_count; i++) {
            if (l.symbols[i].st_shndx != SHN_UNDEF && strcmp(symbol_name(&l, i), names[n]) == 0)
                image->entries[n] = l.addresses[i];
        }
        if (!image->entries[n]) failed = fail(&l, "the object has no function", names[n]);
    }
    if (failed) unlink_image(image);
    free(l.placed);
    free(l.addresses);
    return failed;
}

void unlink_image(linked_image *image) {
    if (image->base) munmap(image->base, image->bytes);
    memset(image, 0, sizeof *image);
}
