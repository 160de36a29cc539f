#include "sim/program.h"

#include "sim/assembler.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

namespace kumiko::sim {

namespace {

// The container: magic, version, the machine's name, the number of words; then each word as a mask
// of its non-zero 64-bit groups, the length of its note, those groups, the note. Numbers are
// little-endian.
constexpr std::string_view magic = "KUMIKOCH";
constexpr uint32_t version = 1;

void put(std::string &out, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) out += char(value >> 8 * i);
}

class Reader {
public:
    Reader(std::string_view bytes, const std::string &document) : bytes_(bytes), document_(document) {}

    [[noreturn]] void fail(const std::string &message) const {
        throw UserError(fmt::format("{}: byte {}: {}", document_, at_, message));
    }
    uint64_t number(int count, const char *what) {
        const std::string_view part = text(count, what);
        uint64_t value = 0;
        for (int i = 0; i < count; i++) value |= uint64_t(uint8_t(part[i])) << 8 * i;
        return value;
    }
    std::string_view text(uint64_t count, const char *what) {
        if (count > left()) fail(fmt::format("the file ends inside {}; it may be truncated", what));
        at_ += count;
        return bytes_.substr(at_ - count, count);
    }
    uint64_t left() const { return bytes_.size() - at_; }

private:
    std::string_view bytes_;
    const std::string &document_;
    size_t at_ = 0;
};

} // namespace

std::string Program::save() const {
    std::string out(magic);
    put(out, version, 4);
    put(out, machine.size(), 4);
    out += machine;
    put(out, words.size(), 8);
    for (const Word &w : words) {
        const EncodedWord bits = encode(w);
        uint32_t present = 0;
        for (int i = 0; i < encoded_words; i++) present |= uint32_t(bits[i] != 0) << i;
        put(out, present, 4);
        put(out, w.note.size(), 4);
        for (uint64_t b : bits)
            if (b) put(out, b, 8);
        out += w.note;
    }
    return out;
}

Program Program::load(std::string_view bytes, const std::string &document) {
    Reader in(bytes, document);
    if (in.left() < magic.size() || in.text(magic.size(), "the first bytes") != magic)
        in.fail("this is not a program file");
    if (const uint64_t v = in.number(4, "the version"); v != version)
        in.fail(fmt::format("version {} is not known; this is version {}", v, version));
    Program p;
    p.machine = in.text(in.number(4, "the machine's name"), "the machine's name");
    const uint64_t count = in.number(8, "the number of words");
    if (count > in.left() / 8) in.fail(fmt::format("{} words do not fit in the remaining {} bytes", count, in.left()));
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t present = uint32_t(in.number(4, "a word"));
        const uint64_t note = in.number(4, "a word");
        if (present >> encoded_words) in.fail(fmt::format("word {} has unknown parts", i));
        EncodedWord bits{};
        for (int b = 0; b < encoded_words; b++) {
            if (!(present >> b & 1)) continue;
            bits[b] = in.number(8, "a word");
            if (!bits[b]) in.fail(fmt::format("word {} lists an empty part", i));
        }
        try {
            p.words.push_back(decode(bits));
            check_word(p.words.back());
        } catch (const UserError &e) {
            in.fail(fmt::format("word {}: {}", i, e.what()));
        }
        p.words.back().note = in.text(note, "a note");
    }
    if (in.left()) in.fail(fmt::format("{} bytes follow the last word", in.left()));
    return p;
}

Program Program::load_file(const std::string &path, bool places) {
    std::ifstream in(path, std::ios::binary);
    if (!in) throw UserError(path + ": cannot be read: " + std::strerror(errno));
    std::ostringstream text;
    text << in.rdbuf();
    if (in.bad() || !in) throw UserError(path + ": cannot be read: " + std::strerror(errno));
    const std::string bytes = text.str();
    return bytes.starts_with(magic) ? load(bytes, path) : assemble(bytes, path, places);
}

} // namespace kumiko::sim
