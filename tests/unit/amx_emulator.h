// Emulates AMX on processors without it. Each AMX instruction raises SIGILL; a handler executes it
// as Intel's "Architecture Instruction Set Extensions and Future Features" (chapter on AMX) defines
// it. So code for AMX runs, and is counted, on any x86-64 machine; each instruction takes
// microseconds.
#pragma once

#if defined(__x86_64__) && defined(__linux__)

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <ucontext.h>

namespace kumiko {

class AmxEmulator {
public:
    struct Counts {
        std::atomic<int64_t> configurations = 0, releases = 0, loads = 0, stores = 0, zeros = 0, products = 0;
    };

    AmxEmulator() {
        here() = this;
        struct sigaction action {};
        action.sa_sigaction = [](int, siginfo_t *, void *context) { trap(static_cast<ucontext_t *>(context)); };
        action.sa_flags = SA_SIGINFO | SA_NODEFER;
        sigaction(SIGILL, &action, &before_);
    }
    ~AmxEmulator() {
        sigaction(SIGILL, &before_, nullptr);
        here() = nullptr;
    }
    AmxEmulator(const AmxEmulator &) = delete;
    AmxEmulator &operator=(const AmxEmulator &) = delete;

    Counts counts;
    std::string fault; // the first violation that a processor would report

private:
    struct Tile {
        int rows = 0, bytes = 0; // 0: not configured
        std::array<uint8_t, 1024> data{};
    };
    struct Registers { // of a thread
        std::array<Tile, 8> tiles;
        bool configured = false;
    };
    struct sigaction before_ {};
    std::mutex refusing_;

    static Registers &registers() {
        static thread_local Registers all;
        return all;
    }
    static AmxEmulator *&here() {
        static AmxEmulator *emulator = nullptr;
        return emulator;
    }

    static void trap(ucontext_t *context) {
        auto *ip = reinterpret_cast<const uint8_t *>(context->uc_mcontext.gregs[REG_RIP]);
        const int length = here() ? here()->execute(ip, context) : 0;
        if (length == 0) { // not AMX: handled as if there were no emulator
            signal(SIGILL, SIG_DFL);
            raise(SIGILL);
            return;
        }
        context->uc_mcontext.gregs[REG_RIP] += length;
    }

    static int64_t register_of(const ucontext_t *context, int number) {
        static constexpr int order[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                        REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
        return context->uc_mcontext.gregs[order[number]];
    }

    struct Place {
        uint64_t base = 0; // with the displacement
        int64_t index = 0; // scaled
        int length = 0;    // of ModRM, SIB and displacement
        bool has_sib = false;
    };

    static Place place(const uint8_t *modrm, bool x, bool b, const ucontext_t *context) {
        const int mod = modrm[0] >> 6, rm = modrm[0] & 7;
        Place p;
        p.length = 1;
        int base = rm | (b ? 8 : 0);
        bool none = mod == 0 && rm == 5; // RIP-relative addresses are not generated here
        if (rm == 4) {
            const uint8_t sib = modrm[1];
            p.has_sib = true, p.length = 2;
            const int index = (sib >> 3 & 7) | (x ? 8 : 0);
            if (index != 4) p.index = register_of(context, index) << (sib >> 6);
            base = (sib & 7) | (b ? 8 : 0);
            none = mod == 0 && (sib & 7) == 5;
        }
        int64_t displacement = 0;
        if (mod == 1) {
            displacement = static_cast<int8_t>(modrm[p.length]), p.length += 1;
        } else if (mod == 2 || none) {
            int32_t d;
            memcpy(&d, modrm + p.length, 4);
            displacement = d, p.length += 4;
        }
        p.base = uint64_t(displacement) + (none ? 0 : uint64_t(register_of(context, base)));
        return p;
    }

    void refuse(const std::string &what) {
        const std::lock_guard lock(refusing_);
        if (fault.empty()) fault = what;
    }

    // Executes the instruction at ip and returns its length; 0 if it is not an AMX instruction.
    int execute(const uint8_t *ip, const ucontext_t *context) {
        if (ip[0] != 0xc4) return 0; // VEX of three bytes
        const bool r = !(ip[1] & 0x80), x = !(ip[1] & 0x40), b = !(ip[1] & 0x20);
        const int map = ip[1] & 0x1f, prefix = ip[2] & 3, v = ~(ip[2] >> 3) & 15, wide = ip[2] >> 7;
        const uint8_t opcode = ip[3], *modrm = ip + 4;
        if (map != 2 || wide || (ip[2] & 4)) return 0;
        const int reg = (modrm[0] >> 3 & 7) | (r ? 8 : 0), rm = modrm[0] & 7;
        const bool in_register = modrm[0] >> 6 == 3;
        enum { np, p66, pf3, pf2 };
        if (opcode == 0x49 && in_register) {
            if (prefix == np) { // tilerelease
                counts.releases++;
                registers() = {};
            } else if (prefix == pf2) { // tilezero
                counts.zeros++;
                tile(reg).data.fill(0);
            } else {
                return 0;
            }
            return 5;
        }
        if (opcode == 0x49) {
            const Place at = place(modrm, x, b, context);
            if (prefix != np) return 0;
            configure(reinterpret_cast<const uint8_t *>(at.base + uint64_t(at.index)));
            return 4 + at.length;
        }
        if (opcode == 0x4b && !in_register) {
            const Place at = place(modrm, x, b, context);
            if (!at.has_sib) return 0;
            move(tile(reg), at, prefix == pf3);
            return 4 + at.length;
        }
        if (opcode == 0x5e && in_register) {
            const bool signed_a = prefix == pf2 || prefix == pf3, signed_b = prefix == pf2 || prefix == p66;
            multiply_bytes(tile(reg), tile(rm), tile(v), signed_a, signed_b);
            return 5;
        }
        if (opcode == 0x5c && in_register && prefix == pf3) {
            multiply_halves(tile(reg), tile(rm), tile(v));
            return 5;
        }
        return 0;
    }

    Tile &tile(int n) {
        if (!registers().configured) refuse("an instruction on tiles before they are configured");
        if (n > 7) refuse("a tile above 7");
        Tile &t = registers().tiles[size_t(n & 7)];
        if (t.rows == 0 || t.bytes == 0) refuse("tile " + std::to_string(n) + " has no shape");
        return t;
    }

    void configure(const uint8_t *c) {
        counts.configurations++;
        if (c[0] != 1) refuse("palette " + std::to_string(c[0]));
        registers().configured = true;
        std::array<Tile, 8> &tiles = registers().tiles;
        for (size_t n = 0; n < 8; n++) {
            uint16_t bytes;
            memcpy(&bytes, c + 16 + 2 * n, 2);
            tiles[n] = Tile();
            tiles[n].rows = c[48 + n], tiles[n].bytes = bytes;
            if (tiles[n].rows > 16 || bytes > 64) refuse("a tile of more than 16 rows of 64 bytes");
        }
    }

    void move(Tile &t, const Place &at, bool store) {
        (store ? counts.stores : counts.loads)++;
        if (!store) t.data.fill(0);
        for (int row = 0; row < t.rows; row++) {
            auto *memory = reinterpret_cast<uint8_t *>(at.base + uint64_t(row * at.index));
            uint8_t *line = &t.data[size_t(row) * 64];
            store ? memcpy(memory, line, size_t(t.bytes)) : memcpy(line, memory, size_t(t.bytes));
        }
    }

    // c: rows × columns of 32 bits, a: rows × depth, b: depth × columns, in groups of four bytes.
    template<typename F>
    void multiply(Tile &c, const Tile &a, const Tile &b, F add) {
        counts.products++;
        if (c.rows != a.rows || c.bytes != b.bytes || a.bytes != 4 * b.rows)
            refuse("a product of tiles whose shapes differ");
        for (int m = 0; m < c.rows; m++) {
            for (int k = 0; k < a.bytes / 4; k++) {
                for (int n = 0; n < c.bytes / 4; n++)
                    add(&c.data[size_t(64 * m + 4 * n)], &a.data[size_t(64 * m + 4 * k)],
                        &b.data[size_t(64 * k + 4 * n)]);
            }
        }
    }

    void multiply_bytes(Tile &c, const Tile &a, const Tile &b, bool signed_a, bool signed_b) {
        multiply(c, a, b, [&](uint8_t *sum, const uint8_t *x, const uint8_t *y) {
            uint32_t total;
            memcpy(&total, sum, 4);
            for (int g = 0; g < 4; g++)
                total += uint32_t((signed_a ? int8_t(x[g]) : int(x[g])) * (signed_b ? int8_t(y[g]) : int(y[g])));
            memcpy(sum, &total, 4);
        });
    }

    // Sums of integers are exact in any order, so that summing even and odd steps apart does not
    // matter.
    void multiply_halves(Tile &c, const Tile &a, const Tile &b) {
        multiply(c, a, b, [&](uint8_t *sum, const uint8_t *x, const uint8_t *y) {
            const auto number = [](const uint8_t *bytes, int g) {
                const uint32_t bits = uint32_t(bytes[2 * g]) << 16 | uint32_t(bytes[2 * g + 1]) << 24;
                float f;
                memcpy(&f, &bits, 4);
                return f;
            };
            float total;
            memcpy(&total, sum, 4);
            for (int g = 0; g < 2; g++) total += number(x, g) * number(y, g);
            memcpy(sum, &total, 4);
        });
    }
};

} // namespace kumiko

#endif
