// Transposes through the matrix unit: rows are written into a face and columns are read, which
// exchanges the elements of a MAB's vectors (4 PEs with the lanes of a word each) with addresses.
// This takes four steps for 16 words of every PE (f16; two steps for 8 words of f32), and two faces
// overlap.
#include "sim/operations.h"
#include "targets/chip/move/stage.h"

#include <fmt/format.h>

#include <algorithm>

namespace kumiko::chip {

using namespace sim;

namespace {

// A face: row i is the word at rows[i] of each PE; column j is written to columns[j], −1 to
// anywhere harmless.
struct Face {
    std::vector<int64_t> rows, columns;
};

// Finds the faces of a transpose, and the steps that write and read them.
class FaceMatcher {
public:
    FaceMatcher(const State &from, const State &to, const Scratch::Range &spare)
        : from_(from), to_(to), want_(to.table), have_(from.table), finder_(have_), spare_(spare),
          done_(size_t(want_.words())), begun_(size_t(want_.words())) {}

    std::optional<Hop> match() {
        for (int64_t a = 0; a < want_.words(); a++) {
            if (done_[size_t(a)] || !required_anywhere(want_, a)) continue;
            auto face = face_at(a);
            if (!face) return std::nullopt;
            faces_.push_back(std::move(*face));
        }
        std::vector<Ops> writes, reads;
        for (size_t n = 0; n < faces_.size(); n++) {
            writes.push_back(write_steps(n));
            auto read = read_steps(n);
            if (!read) return std::nullopt;
            reads.push_back(std::move(*read));
        }
        // One face is written while the other is read.
        Hop made{to_, {}, ""};
        for (size_t n = 0; n <= faces_.size(); n++)
            for (size_t i = 0; i < 4; i++) {
                if (n < faces_.size() && i < writes[n].size()) made.ops.push_back(writes[n][i]);
                if (n > 0 && i < reads[n - 1].size()) made.ops.push_back(reads[n - 1][i]);
            }
        made.text =
            fmt::format("{} -> {}: {} faces transposed", name_of(from_.memory), name_of(to_.memory), faces_.size());
        return made;
    }

private:
    // Whether column j of a face with these rows matches the PE's word at a.
    bool is_column(const std::vector<int64_t> &rows, int j, int64_t a) const {
        for (int u = 0; u < want_.units(); u++)
            for (int k = 0; k < lanes_; k++) {
                const int32_t wanted = want_.at(u, a)[k];
                if (wanted == anything) continue;
                const int64_t row = rows[size_t(u % 4 * lanes_ + k)];
                if (row < 0 || wanted != have_.at(u / 4 * 4 + j / lanes_, row)[j % lanes_]) return false;
            }
        return true;
    }

    // The row that holds element e in column j of the MAB at `unit`, for the first such column, or
    // for `column` if that is known, which it is then.
    std::optional<int64_t> row_of(int32_t e, int unit, int &column) {
        for (int j = 0; j < size_; j++) {
            if (column >= 0 && j != column) continue;
            for (const int64_t b : finder_.element(unit + j / lanes_, e))
                if (have_.at(unit + j / lanes_, b)[j % lanes_] == e) {
                    column = j;
                    return b;
                }
        }
        return std::nullopt;
    }

    // Determines the rows of a face from the first MAB's words at address a; returns the column
    // that they are, or −1.
    int find_rows(int64_t a, std::vector<int64_t> &rows) {
        int column = -1;
        for (int u = 0; u < want_.units() && column < 0; u += 4) {
            std::fill(rows.begin(), rows.end(), -1);
            for (int p = 0; p < 4; p++)
                for (int k = 0; k < lanes_; k++) {
                    const int32_t e = want_.at(u + p, a)[k];
                    if (e < 0) continue;
                    const auto row = row_of(e, u, column);
                    if (!row) return -1;
                    rows[size_t(p * lanes_ + k)] = *row;
                }
        }
        return column;
    }

    // The face that provides address a, and all further addresses that its columns match.
    std::optional<Face> face_at(int64_t a) {
        Face f{std::vector<int64_t>(size_t(size_), -1), std::vector<int64_t>(size_t(size_), -1)};
        const int column = find_rows(a, f.rows);
        if (column < 0) return std::nullopt;
        // Rows that nothing is required of continue the pattern.
        for (size_t i = 0; i < f.rows.size(); i++)
            if (f.rows[i] < 0) f.rows[i] = i && f.rows[i - 1] + 1 < have_.words() ? f.rows[i - 1] + 1 : 0;
        if (!is_column(f.rows, column, a)) return std::nullopt;
        int used = 0;
        for (int64_t x = a; x < want_.words() && used < size_; x++) {
            if (done_[size_t(x)] || !required_anywhere(want_, x)) continue;
            for (int j = 0; j < size_; j++)
                if (f.columns[size_t(j)] < 0 && is_column(f.rows, j, x)) {
                    f.columns[size_t(j)] = x;
                    done_[size_t(x)] = true;
                    used++;
                    break;
                }
        }
        return f;
    }

    Ops write_steps(size_t n) const {
        const Face &f = faces_[n];
        const bool pairs = [&] {
            for (int i = 0; i < size_; i += 2)
                if (f.rows[size_t(i + 1)] != f.rows[size_t(i)] + 1) return false;
            return true;
        }();
        const int w = pairs ? 2 : 1;
        Ops write;
        for (int part = 0; part < face_parts(precision_, w); part++) {
            MicroOp op;
            op.word().mw.on = true;
            op.word().mw.precision = precision_;
            op.word().mw.face = uint8_t(n % 2);
            op.word().mw.part = uint8_t(part);
            op.word().mw.width = uint8_t(w);
            std::array<int64_t, 4> at{};
            for (int t = 0; t < 4; t++) at[size_t(t)] = from_.base + f.rows[size_t(4 * w * part + w * t)];
            op.word().mw.from = op.word().read(port(from_.memory, at));
            write.push_back(std::move(op));
        }
        return write;
    }

    // Nothing if there is no place for unneeded columns.
    std::optional<Ops> read_steps(size_t n) {
        const Face &f = faces_[n];
        for (const int64_t a : f.columns)
            if (a >= 0) begun_[size_t(a)] = true;
        std::vector<int64_t> to_at(size_t(size_), -1);
        bool wide = true;
        for (int j = 0; j < size_; j++)
            if (f.columns[size_t(j)] >= 0) to_at[size_t(j)] = to_.base + f.columns[size_t(j)];
        for (int j = 0; j < size_; j += 2)
            wide = wide && to_at[size_t(j)] >= 0 && to_at[size_t(j + 1)] == to_at[size_t(j)] + 1;
        const int r = wide ? 2 : 1;
        Ops read;
        for (int part = 0; part < face_parts(precision_, r); part++) {
            std::array<int64_t, 4> at{};
            for (int t = 0; t < 4; t++) at[size_t(t)] = to_at[size_t(4 * r * part + r * t)];
            if (std::all_of(at.begin(), at.end(), [](int64_t a) { return a < 0; })) continue;
            if (!place_unneeded(at)) return std::nullopt;
            MicroOp op;
            op.word().mr.on = true;
            op.word().mr.precision = precision_;
            op.word().mr.face = uint8_t(n % 2);
            op.word().mr.part = uint8_t(part);
            op.word().mr.width = uint8_t(r);
            op.word().mr.to = op.word().write({port(to_.memory, at)});
            read.push_back(std::move(op));
        }
        return read;
    }

    // Unneeded columns (addresses below 0) are written to columns that have not been started, to
    // padding, or to scratch.
    bool place_unneeded(std::array<int64_t, 4> &at) const {
        std::vector<bool> taken(size_t(want_.words()));
        int64_t next = 0, next_spare = std::max(spare_.begin, spare_.end - 8);
        for (int64_t &a : at) {
            if (a >= 0) continue;
            while (next < want_.words() &&
                   (begun_[size_t(next)] || taken[size_t(next)] || forbidden_anywhere(want_, next)))
                next++;
            if (next < want_.words()) {
                taken[size_t(next)] = true;
                a = to_.base + next;
            } else if (next_spare < spare_.end) {
                a = next_spare++;
            } else {
                return false;
            }
        }
        return true;
    }

    const State &from_, &to_;
    const Contents &want_, &have_;
    Finder finder_;
    const Scratch::Range &spare_;
    const int lanes_ = want_.lanes(), size_ = 4 * lanes_;
    const sim::Type precision_ = lanes_ == 4 ? sim::Type::F16 : sim::Type::F32;
    std::vector<Face> faces_;
    // By wanted word: whether a face provides it, and whether one that is being read does.
    std::vector<bool> done_, begun_;
};

} // namespace

std::optional<Hop> Hops::match_transpose(const State &from, const State &to) {
    // One port cannot read and write in time.
    if (from.memory == to.memory && from.memory <= Memory::Lm1) return std::nullopt;
    return FaceMatcher(from, to, range_of(scratch, to.memory)).match();
}

} // namespace kumiko::chip
