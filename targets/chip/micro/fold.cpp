// Compresses repeated sequences of words with REPs: the same steps as a shorter program.
#include "sim/program.h"
#include "support/stop.h"
#include "targets/chip/micro/micro_op.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace kumiko::chip {

using namespace sim;

namespace {

constexpr int address_count = 10;
using Addresses = std::array<int, address_count>;

// Visits the addresses of a word. Those of a port's four cycles are offset together.
template<typename F>
void each_address(Word &w, F &&f) {
    for (Port *p : {&w.lm0, &w.lm1, &w.grf0_read, &w.grf0_write, &w.grf1_read, &w.grf1_write})
        f(p->address.at[0], p->address.repeat);
    f(w.l1.at.at, w.l1.at.repeat);
    f(w.l2.l2bm.at, w.l2.l2bm.repeat);
    f(w.l2.l1bm.at, w.l2.l1bm.repeat);
    f(w.l2.second.at, w.l2.second.repeat);
}

// A piece of the program: its words, whose inner loop, if any, runs `count` times.
struct Item {
    int shape = 0;                     // equal numbers mean equal except for addresses
    std::vector<Addresses> addresses;  // of each word
    std::vector<size_t> words;         // their positions in the original
    std::vector<Addresses> inner_step; // address step of each word in the loop, if there is one
    uint32_t count = 1;
    bool whole = false; // must not be in a REP: moves, waits, the end
};

// The number of times that `length` items from `at` on repeat.
uint32_t repeats(const std::vector<Item> &items, size_t at, size_t length) {
    // The step of address i of word w in item at + k from one repetition to the next.
    const auto step_of = [&](size_t k, size_t w, size_t i) {
        return items[at + length + k].addresses[w][i] - items[at + k].addresses[w][i];
    };
    uint32_t n = 1;
    for (;; n++) {
        const size_t next = at + n * length;
        if (next + length > items.size()) return n;
        for (size_t k = 0; k < length; k++) {
            const Item &a = items[next - length + k], &b = items[next + k];
            if (a.shape != b.shape || b.whole) return n;
            for (size_t w = 0; w < a.addresses.size(); w++)
                for (size_t i = 0; i < address_count; i++) {
                    const int step = b.addresses[w][i] - a.addresses[w][i];
                    if (step != step_of(k, w, i) || step < INT16_MIN || step > INT16_MAX) return n;
                }
        }
    }
}

struct Loop {
    size_t at, length; // items
    uint32_t count;
};

// Selects the loops from left to right, at each position the one that saves most words.
std::vector<Loop> find_loops(const std::vector<Item> &items, int max_words, const std::atomic<bool> *stop) {
    std::vector<Loop> loops;
    for (size_t at = 0; at < items.size();) {
        end_when_stopped(stop, "compiling");
        Loop best{at, 1, 1};
        size_t best_saved = 0, words = 0;
        for (size_t length = 1; at + 2 * length <= items.size(); length++) {
            const Item &last = items[at + length - 1];
            words += last.words.size();
            if (int(words) > max_words || last.whole || items[at].whole) break;
            if (items[at].shape != items[at + length].shape) continue;
            const uint32_t n = repeats(items, at, length);
            const size_t saved = (n - 1) * words;
            if (saved > best_saved) best = {at, length, n}, best_saved = saved;
        }
        loops.push_back(best);
        at += best.length * best.count;
    }
    return loops;
}

// Numbers keys; equal keys get equal numbers.
template<typename Key>
class Numbers {
public:
    int of(const Key &key) { return numbers_.try_emplace(key, int(numbers_.size())).first->second; }

private:
    std::map<Key, int> numbers_;
};

class Folder {
public:
    explicit Folder(const std::vector<Word> &words) : words_(words) {}

    Item item_of(size_t i) {
        Item item;
        Word w = words_[i]; // becomes the word without its addresses
        item.words = {i};
        item.whole = w.mv.op != MvOp::None || !(w.control == Control{});
        Addresses a{};
        std::vector<int> apart; // offsets of listed addresses from the first
        for (Port *p : {&w.lm0, &w.lm1, &w.grf0_read, &w.grf0_write, &w.grf1_read, &w.grf1_write})
            if (p->address.listed)
                for (size_t t = 1; t < 4; t++) apart.push_back(std::exchange(p->address.at[t], 0) - p->address.at[0]);
        size_t k = 0;
        each_address(w, [&](uint16_t &at, auto &) { a[k++] = std::exchange(at, 0); });
        item.addresses = {a};
        item.shape = codes_.of({encode(w), std::move(apart)});
        return item;
    }

    // The items of a loop's first iteration as one item.
    Item join(const std::vector<Item> &from, const Loop &l) {
        Item item;
        item.count = l.count;
        std::string key;
        for (size_t k = 0; k < l.length; k++) {
            const Item &part = from[l.at + k];
            key += std::to_string(part.shape) + ",";
            item.whole = item.whole || part.whole;
            for (size_t w = 0; w < part.words.size(); w++) {
                item.words.push_back(part.words[w]);
                item.addresses.push_back(part.addresses[w]);
                Addresses step{};
                if (l.count > 1)
                    for (size_t i = 0; i < address_count; i++)
                        step[i] = from[l.at + l.length + k].addresses[w][i] - part.addresses[w][i];
                item.inner_step.push_back(step);
                for (const int s : step) key += std::to_string(s) + " ";
            }
        }
        item.shape = shapes_.of(std::to_string(l.count) + ":" + key);
        return item;
    }

    // Appends the words of a loop over inner loops, with both repeat counts.
    void append(const std::vector<Item> &inner, const Loop &l, std::vector<Word> &out) const {
        const size_t begin = out.size();
        for (size_t k = 0; k < l.length; k++) {
            const Item &item = inner[l.at + k];
            const size_t first = out.size();
            const size_t level = l.count > 1 ? 1 : 0; // index of the inner loop's strides
            for (size_t w = 0; w < item.words.size(); w++) {
                Word word = words_[item.words[w]];
                size_t i = 0;
                each_address(word, [&](uint16_t &, std::array<int16_t, 2> &repeat) {
                    if (l.count > 1)
                        repeat[0] = int16_t(inner[l.at + l.length + k].addresses[w][i] - item.addresses[w][i]);
                    if (item.count > 1) repeat[level] = int16_t(item.inner_step[w][i]);
                    i++;
                });
                out.push_back(std::move(word));
            }
            if (item.count > 1) out[first].control.repeat[1] = {item.count, uint8_t(item.words.size())};
        }
        if (l.count > 1) out[begin].control.repeat[0] = {l.count, uint8_t(out.size() - begin)};
    }

private:
    const std::vector<Word> &words_;
    Numbers<std::pair<EncodedWord, std::vector<int>>> codes_;
    Numbers<std::string> shapes_;
};

} // namespace

std::vector<Word> fold(const std::vector<Word> &words, const Config &config, const std::atomic<bool> *stop) {
    if (config.repeat.nest < 1) return words;
    Folder folder(words);
    std::vector<Item> items; // single words
    for (size_t i = 0; i < words.size(); i++) {
        end_when_stopped(stop, "compiling");
        items.push_back(folder.item_of(i));
    }
    std::vector<Item> inner;
    for (const Loop &l : find_loops(items, config.repeat.length, stop)) inner.push_back(folder.join(items, l));
    std::vector<Loop> outer;
    if (config.repeat.nest > 1) {
        outer = find_loops(inner, config.repeat.length, stop);
    } else {
        for (size_t i = 0; i < inner.size(); i++) outer.push_back({i, 1, 1});
    }
    std::vector<Word> out;
    for (const Loop &l : outer) folder.append(inner, l, out);
    // A single loop must be in the first position.
    for (Word &w : out)
        if (!w.control.repeat[0].count && w.control.repeat[1].count)
            std::swap(w.control.repeat[0], w.control.repeat[1]);
    return out;
}

} // namespace kumiko::chip
