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

} // namespace

std::optional<Made> Hops::match_transpose(const State &from, const State &to) {
    const Contents &want = to.table, &have = from.table;
    const int lanes = want.lanes(), size = 4 * lanes;
    const Type precision = lanes == 4 ? Type::F16 : Type::F32;
    // One port cannot read and write in time.
    if (from.memory == to.memory && from.memory <= Memory::Lm1) return std::nullopt;
    Finder finder(have);

    // Whether column j of a face with these rows matches the PE's word at a.
    const auto is_column = [&](const std::vector<int64_t> &rows, int j, int64_t a) {
        for (int u = 0; u < want.units(); u++)
            for (int k = 0; k < lanes; k++) {
                const int32_t wanted = want.at(u, a)[k];
                if (wanted == anything) continue;
                const int64_t row = rows[size_t(u % 4 * lanes + k)];
                if (row < 0 || wanted != have.at(u / 4 * 4 + j / lanes, row)[j % lanes]) return false;
            }
        return true;
    };
    std::vector<Face> faces;
    std::vector<bool> done(size_t(want.words()));
    for (int64_t a = 0; a < want.words(); a++) {
        if (done[size_t(a)] || !wanted_anywhere(want, a)) continue;
        // Determine the rows of the face from the first MAB's words at this address.
        Face f{std::vector<int64_t>(size_t(size), -1), std::vector<int64_t>(size_t(size), -1)};
        int column = -1;
        for (int u = 0; u < want.units() && column < 0; u += 4) {
            std::fill(f.rows.begin(), f.rows.end(), -1);
            bool whole = true;
            for (int p = 0; p < 4 && whole; p++)
                for (int k = 0; k < lanes && whole; k++) {
                    const int32_t e = want.at(u + p, a)[k];
                    if (e < 0) continue;
                    bool found = false;
                    for (int j = 0; j < size && !found; j++) {
                        if (column >= 0 && j != column) continue;
                        for (const int64_t b : finder.element(u + j / lanes, e))
                            if (have.at(u + j / lanes, b)[j % lanes] == e) {
                                f.rows[size_t(p * lanes + k)] = b;
                                column = j;
                                found = true;
                                break;
                            }
                    }
                    whole = found;
                }
            if (!whole) return std::nullopt;
        }
        if (column < 0) return std::nullopt;
        // Rows that nothing is required of continue the pattern.
        for (size_t i = 0; i < f.rows.size(); i++)
            if (f.rows[i] < 0) f.rows[i] = i && f.rows[i - 1] + 1 < have.words() ? f.rows[i - 1] + 1 : 0;
        if (!is_column(f.rows, column, a)) return std::nullopt;
        int used = 0;
        for (int64_t x = a; x < want.words() && used < size; x++) {
            if (done[size_t(x)] || !wanted_anywhere(want, x)) continue;
            for (int j = 0; j < size; j++)
                if (f.columns[size_t(j)] < 0 && is_column(f.rows, j, x)) {
                    f.columns[size_t(j)] = x;
                    done[size_t(x)] = true;
                    used++;
                    break;
                }
        }
        faces.push_back(std::move(f));
    }

    // Unneeded columns are written to columns that have not been started, to padding, or to
    // scratch.
    const Scratch::Range &spare = range_of(scratch, to.memory);
    std::vector<bool> begun(size_t(want.words()));
    std::vector<Ops> writes, reads;
    for (size_t n = 0; n < faces.size(); n++) {
        const Face &f = faces[n];
        Ops write, read;
        const bool pairs = [&] {
            for (int i = 0; i < size; i += 2)
                if (f.rows[size_t(i + 1)] != f.rows[size_t(i)] + 1) return false;
            return true;
        }();
        const int w = pairs ? 2 : 1;
        for (int part = 0; part < face_parts(precision, w); part++) {
            MicroOp op;
            op.word.mw.on = true;
            op.word.mw.precision = precision;
            op.word.mw.face = uint8_t(n % 2);
            op.word.mw.part = uint8_t(part);
            op.word.mw.width = uint8_t(w);
            std::array<int64_t, 4> at{};
            for (int t = 0; t < 4; t++) at[size_t(t)] = from.base + f.rows[size_t(4 * w * part + w * t)];
            op.word.mw.from = op.word.read(port(from.memory, at));
            write.push_back(std::move(op));
        }
        for (const int64_t a : f.columns)
            if (a >= 0) begun[size_t(a)] = true;
        std::vector<int64_t> to_at(size_t(size), -1);
        bool wide = true;
        for (int j = 0; j < size; j++)
            if (f.columns[size_t(j)] >= 0) to_at[size_t(j)] = to.base + f.columns[size_t(j)];
        for (int j = 0; j < size; j += 2)
            wide = wide && to_at[size_t(j)] >= 0 && to_at[size_t(j + 1)] == to_at[size_t(j)] + 1;
        const int r = wide ? 2 : 1;
        for (int part = 0; part < face_parts(precision, r); part++) {
            std::array<int64_t, 4> at{};
            std::vector<bool> taken(size_t(want.words()));
            int64_t next = 0, next_spare = std::max(spare.begin, spare.end - 8);
            bool any = false;
            for (int t = 0; t < 4; t++) any = any || to_at[size_t(4 * r * part + r * t)] >= 0;
            if (!any) continue;
            for (int t = 0; t < 4; t++) {
                at[size_t(t)] = to_at[size_t(4 * r * part + r * t)];
                if (at[size_t(t)] >= 0) continue;
                while (next < want.words() &&
                       (begun[size_t(next)] || taken[size_t(next)] || forbidden_anywhere(want, next)))
                    next++;
                if (next < want.words()) {
                    taken[size_t(next)] = true;
                    at[size_t(t)] = to.base + next;
                } else if (next_spare < spare.end) {
                    at[size_t(t)] = next_spare++;
                } else {
                    return std::nullopt;
                }
            }
            MicroOp op;
            op.word.mr.on = true;
            op.word.mr.precision = precision;
            op.word.mr.face = uint8_t(n % 2);
            op.word.mr.part = uint8_t(part);
            op.word.mr.width = uint8_t(r);
            op.word.mr.to = op.word.write({port(to.memory, at)});
            read.push_back(std::move(op));
        }
        writes.push_back(std::move(write));
        reads.push_back(std::move(read));
    }
    // One face is written while the other is read.
    Made made{to, {}, ""};
    for (size_t n = 0; n <= faces.size(); n++)
        for (size_t i = 0; i < 4; i++) {
            if (n < faces.size() && i < writes[n].size()) made.ops.push_back(writes[n][i]);
            if (n > 0 && i < reads[n - 1].size()) made.ops.push_back(reads[n - 1][i]);
        }
    made.text = fmt::format("{} -> {}: {} faces transposed", name_of(from.memory), name_of(to.memory), faces.size());
    return made;
}

} // namespace kumiko::chip
