// The elements that each word of a path holds.
#include "targets/chip/transfer/transfer_path.h"

#include "support/error.h"

#include <numeric>

namespace kumiko::chip {

using namespace sim;

void TransferPath::each_word(const WordVisitor &f) const {
    const auto &loops = plan_.loops();
    const TransferPathShape &s = shape_;
    std::vector<int64_t> axis_stride(s.access.extents.size(), 1);
    for (size_t d = axis_stride.size(); d-- > 1;) axis_stride[d - 1] = axis_stride[d] * s.access.extents[d];
    std::vector<int64_t> elements(static_cast<size_t>(per_word_));
    Values values(loops.size(), 0);
    for (int64_t k = 0; k < tiles_; k++) {
        set_key(values, k);
        for (const Home &h : homes(k)) {
            plan_.set_unit(values, Tier::Group, h.g);
            plan_.set_unit(values, Tier::L2b, h.l);
            for (int64_t part = 0; part < l2_times_; part++) {
                for (int64_t x = 0; x < l1_words_; x++) {
                    const auto [access, w] = set_word(values, part, x);
                    for (int e = 0; e < per_word_; e++) {
                        if (e > 0 && s.transposed)
                            set_word(values, part, x, e);
                        else if (e > 0)
                            set_lane(values, w, e);
                        int64_t &offset = elements[size_t(e)] =
                            access < accesses_ && plan_.inside(values, shared_) ? 0 : -1;
                        for (size_t d = 0; d < axis_stride.size() && offset >= 0; d++) {
                            int64_t at = s.access.index[d].at(values);
                            if (s.access.period) at %= s.access.period;
                            if (s.clamped) at = std::clamp<int64_t>(at, 0, s.access.extents[d] - 1);
                            offset = at < 0 || at >= s.access.extents[d] ? -1 : offset + at * axis_stride[d];
                        }
                    }
                    f(h.group, h.slot * l2_words() + l2_offset(part, x), elements);
                }
            }
        }
    }
}

void TransferPath::set_key(Values &values, int64_t key) const {
    for (size_t i = shape_.keys.size(); i-- > 0;) {
        values[shape_.keys[i]] = key % plan_.loops()[shape_.keys[i]].extent;
        key /= plan_.loops()[shape_.keys[i]].extent;
    }
}

// Element e of word w of an access, in the PE that the values name.
void TransferPath::set_lane(Values &values, int64_t w, int64_t e) const {
    const TransferPathShape &s = shape_;
    if (s.form != Form::Pe) {
        // The PE's elements, or two of four.
        const size_t loop = s.form == Form::Result ? s.row : s.column;
        const int64_t n = s.elements_of_pe();
        values[loop] = values[loop] / n * n + (s.form == Form::Result ? w * per_word_ : 0) + e;
        return;
    }
    int64_t lane = w * per_word_ + e;
    for (size_t i = s.lanes.size(); i-- > 0;) {
        values[s.lanes[i]] = lane % plan_.loops()[s.lanes[i]].extent;
        lane /= plan_.loops()[s.lanes[i]].extent;
    }
}

// Sets the loops for element e of a word.
std::pair<int64_t, int64_t> TransferPath::set_word(Values &values, int64_t part, int64_t x, int64_t e) const {
    const TransferPathShape &s = shape_;
    plan_.set_unit(values, Tier::L1b, l1b_of_part_[size_t(part)]);
    int64_t access, w = 0, p = 0, m = 0, row = 0, lane = e;
    if (s.form == Form::Face) {
        const int64_t y = x % s.face_words();
        access = x / s.face_words();
        row = 8 * (y / 32) + 2 * (y % 32 / 8) + y % 2;
        p = y % 8 / 2;
    } else {
        std::pair<int64_t, int64_t> at_mab{0, x};
        if (by_mab_)
            at_mab = in_segment(x, segment_, l1_words_ / segment_, 16 * s.transposed / (4 * per_word_), config_.groups);
        const int64_t a = at_mab.second / per_address_, i = x % per_address_;
        m = by_mab_ ? std::countr_zero(mabs_of_part(at_mab.first)) : i / pes_per_mab;
        p = i % pes_per_mab;
        access = s.store ? a / (cycles_per_step * words_) * cycles_per_step + a % cycles_per_step : a / words_;
        w = s.store ? a % (cycles_per_step * words_) / cycles_per_step : a % words_;
    }
    if (s.transposed) { // a row of adjacent faces; each word has four columns of one row
        const int64_t faces = s.transposed / (pes_per_mab * per_word_), q = access % s.transposed, r = q / faces;
        access += (q % faces * pes_per_mab + p) * per_word_ + e - q;
        p = r / per_word_;
        lane = r % per_word_;
    }
    plan_.set_unit(values, Tier::Mab, int(m));
    plan_.set_unit(values, Tier::Pe, int(p));
    set_digits(values, access);
    if (s.form == Form::Face) values[s.row] = row;
    if (s.form == Form::Result) values[s.row] = s.elements_of_pe() * p;
    if (s.form == Form::Face || s.form == Form::Vector) values[s.column] = s.elements_of_pe() * p;
    set_lane(values, w, lane);
    return {access, w};
}

void TransferPath::set_digits(Values &values, int64_t access) const {
    int64_t digit = access;
    for (size_t d = digits_.size(); d-- > 0;) {
        const int64_t at = digit % digits_[d].extent;
        digit /= digits_[d].extent;
        if (digits_[d].loops.size() == 1) {
            values[digits_[d].loops[0]] = at;
            continue;
        }
        const std::vector<int64_t> &way = digits_[d].ways[size_t(at)];
        for (size_t i = 0; i < way.size(); i++) values[digits_[d].loops[i]] = way[i];
    }
}

} // namespace kumiko::chip
