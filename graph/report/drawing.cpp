#include "graph/report/drawing.h"

#include "support/error.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace kumiko::graph {

namespace {

constexpr int order_sweeps = 12, place_sweeps = 16;

// A box, or the place of a line in a layer that it crosses.
struct Place {
    size_t layer = 0;
    double width = 0;
    double x = 0; // of the middle
    std::vector<size_t> above, below;
};

class Layers {
public:
    Layers(size_t boxes, const std::vector<DrawnLine> &lines, const DrawingSizes &sizes)
        : boxes_(boxes), lines_(lines), sizes_(sizes), places_(boxes) {
        for (Place &p : places_) p.width = sizes.width;
        assign_layers();
        route_lines();
        for (size_t p = 0; p < places_.size(); p++) {
            if (layers_.size() <= places_[p].layer) layers_.resize(places_[p].layer + 1);
            layers_[places_[p].layer].push_back(p);
        }
        order_layers();
        place_layers();
    }

    Drawing drawing() const {
        double left = 0, right = 0;
        for (const Place &p : places_) {
            left = std::min(left, p.x - p.width / 2);
            right = std::max(right, p.x + p.width / 2);
        }
        const double pitch = sizes_.height + sizes_.down;
        Drawing made;
        made.width = right - left;
        made.height = layers_.empty() ? 0 : double(layers_.size()) * pitch - sizes_.down;
        for (size_t b = 0; b < boxes_; b++)
            made.boxes.push_back({places_[b].x - places_[b].width / 2 - left, double(places_[b].layer) * pitch});
        for (size_t l = 0; l < lines_.size(); l++) {
            const Place &from = places_[lines_[l].from], &to = places_[lines_[l].to];
            std::vector<DrawnPoint> points = {{from.x - left, double(from.layer) * pitch + sizes_.height}};
            for (size_t n = 0; n < crossed_[l]; n++) {
                const Place &p = places_[chains_.at({lines_[l].from, lines_[l].value})[n]];
                points.push_back({p.x - left, double(p.layer) * pitch});
                points.push_back({p.x - left, double(p.layer) * pitch + sizes_.height});
            }
            points.push_back({to.x - left, double(to.layer) * pitch});
            made.lines.push_back(std::move(points));
        }
        return made;
    }

private:
    void assign_layers() {
        std::vector<std::vector<size_t>> below(boxes_);
        std::vector<size_t> open(boxes_, 0); // lines from boxes without a layer
        for (const DrawnLine &l : lines_) below.at(l.from).push_back(l.to), open.at(l.to)++;
        std::vector<size_t> order;
        for (size_t b = 0; b < boxes_; b++) {
            if (open[b] == 0) order.push_back(b);
        }
        for (size_t n = 0; n < order.size(); n++) {
            for (const size_t b : below[order[n]]) {
                places_[b].layer = std::max(places_[b].layer, places_[order[n]].layer + 1);
                if (--open[b] == 0) order.push_back(b);
            }
        }
        if (order.size() != boxes_) throw InternalError("the lines of a drawing form a cycle");
        // Boxes with at least as many lines below as above move towards the boxes below.
        std::vector<size_t> above(boxes_, 0);
        for (const DrawnLine &l : lines_) above[l.to]++;
        for (size_t n = order.size(); n-- > 0;) {
            const size_t b = order[n];
            if (below[b].empty() || above[b] > below[b].size()) continue;
            size_t first = SIZE_MAX;
            for (const size_t r : below[b]) first = std::min(first, places_[r].layer);
            places_[b].layer = first - 1;
        }
    }

    // One chain of places for all lines of a value.
    void route_lines() {
        std::map<std::pair<size_t, size_t>, size_t> ends; // the last layer that the chain crosses
        for (const DrawnLine &l : lines_) {
            size_t &end = ends[{l.from, l.value}];
            end = std::max(end, places_[l.to].layer - 1);
        }
        for (const auto &[value, end] : ends) {
            size_t last = value.first;
            std::vector<size_t> &chain = chains_[value];
            for (size_t layer = places_[value.first].layer + 1; layer <= end; layer++) {
                Place p;
                p.layer = layer, p.width = sizes_.line;
                places_.push_back(p);
                connect(last, places_.size() - 1);
                chain.push_back(last = places_.size() - 1);
            }
        }
        for (const DrawnLine &l : lines_) {
            const size_t crossed = places_[l.to].layer - places_[l.from].layer - 1;
            crossed_.push_back(crossed);
            connect(crossed ? chains_.at({l.from, l.value})[crossed - 1] : l.from, l.to);
        }
    }

    void connect(size_t above, size_t below) {
        places_[above].below.push_back(below);
        places_[below].above.push_back(above);
    }

    // Alternates sweeps down and up, and keeps the order with the fewest crossings.
    void order_layers() {
        std::vector<double> at(places_.size()); // position in the layer
        const auto number = [&] {
            for (const auto &layer : layers_) {
                for (size_t n = 0; n < layer.size(); n++) at[layer[n]] = double(n);
            }
        };
        number();
        std::vector<std::vector<size_t>> best = layers_;
        size_t fewest = crossings(at);
        for (int sweep = 0; sweep < order_sweeps && fewest > 0; sweep++) {
            const bool down = sweep % 2 == 0;
            for (size_t n = 0; n < layers_.size(); n++) {
                std::vector<size_t> &layer = layers_[down ? n : layers_.size() - 1 - n];
                std::vector<std::pair<double, size_t>> keys;
                for (const size_t p : layer) {
                    const std::vector<size_t> &next = down ? places_[p].above : places_[p].below;
                    keys.emplace_back(next.empty() ? at[p] : median(next, at), p);
                }
                std::stable_sort(keys.begin(), keys.end(),
                                 [](const auto &a, const auto &b) { return a.first < b.first; });
                for (size_t i = 0; i < layer.size(); i++) layer[i] = keys[i].second, at[layer[i]] = double(i);
            }
            const size_t now = crossings(at);
            if (now < fewest) fewest = now, best = layers_;
        }
        layers_ = best;
    }

    static double median(const std::vector<size_t> &of, const std::vector<double> &at) {
        std::vector<double> all;
        for (const size_t p : of) all.push_back(at[p]);
        std::sort(all.begin(), all.end());
        return (all[(all.size() - 1) / 2] + all[all.size() / 2]) / 2;
    }

    // Pairs of lines between two layers whose ends are in different orders: inversions, counted by
    // a tree of sums.
    size_t crossings(const std::vector<double> &at) const {
        size_t sum = 0;
        for (size_t l = 0; l + 1 < layers_.size(); l++) {
            std::vector<size_t> ends; // in the order of their begins
            for (const size_t p : layers_[l]) {
                std::vector<size_t> own;
                for (const size_t q : places_[p].below) own.push_back(size_t(at[q]));
                std::sort(own.begin(), own.end());
                ends.insert(ends.end(), own.begin(), own.end());
            }
            std::vector<size_t> tree(layers_[l + 1].size() + 1, 0);
            for (size_t n = 0; n < ends.size(); n++) {
                size_t before = 0; // ends at most this one
                for (size_t i = ends[n] + 1; i > 0; i -= i & (~i + 1)) before += tree[i];
                sum += n - before;
                for (size_t i = ends[n] + 1; i < tree.size(); i += i & (~i + 1)) tree[i]++;
            }
        }
        return sum;
    }

    // Moves places towards their neighbours. The order within layers and the gaps are kept.
    void place_layers() {
        for (const auto &layer : layers_) settle(layer, [](size_t) { return 0.0; });
        std::vector<double> at(places_.size());
        for (int sweep = 0; sweep < place_sweeps; sweep++) {
            const bool down = sweep % 2 == 0, last = sweep + 1 >= place_sweeps - 1;
            for (size_t n = 0; n < layers_.size(); n++) {
                settle(layers_[down ? n : layers_.size() - 1 - n], [&](size_t p) {
                    std::vector<size_t> next = down ? places_[p].above : places_[p].below;
                    if (last || next.empty()) {
                        next = places_[p].above;
                        next.insert(next.end(), places_[p].below.begin(), places_[p].below.end());
                    }
                    if (next.empty()) return places_[p].x;
                    for (const size_t q : next) at[q] = places_[q].x;
                    return median(next, at);
                });
            }
        }
    }

    // The places of a layer with the least sum of squared distances from those that are wished for,
    // at least the gaps apart. Neighbours that would overlap form a block around their mean wish.
    template<typename Wish>
    void settle(const std::vector<size_t> &layer, const Wish &wish) {
        struct Block {
            double sum, count;
            double mean() const { return sum / count; }
        };
        std::vector<Block> blocks;
        std::vector<double> shift; // from the first place of the layer, at the least gaps
        for (size_t n = 0; n < layer.size(); n++) {
            const Place &p = places_[layer[n]];
            shift.push_back(n == 0 ? 0
                                   : shift.back() + (places_[layer[n - 1]].width + p.width) / 2 +
                                         (p.width == sizes_.line ? sizes_.across / 2 : sizes_.across));
            blocks.push_back({wish(layer[n]) - shift.back(), 1});
            while (blocks.size() > 1 && blocks[blocks.size() - 2].mean() > blocks.back().mean()) {
                const Block b = blocks.back();
                blocks.pop_back();
                blocks.back().sum += b.sum, blocks.back().count += b.count;
            }
        }
        size_t n = 0;
        for (const Block &b : blocks) {
            for (int i = 0; i < int(b.count); i++, n++) places_[layer[n]].x = b.mean() + shift[n];
        }
    }

    const size_t boxes_;
    const std::vector<DrawnLine> &lines_;
    const DrawingSizes &sizes_;
    // The boxes, then places of lines.
    std::vector<Place> places_;
    // The places of the lines of a box and value.
    std::map<std::pair<size_t, size_t>, std::vector<size_t>> chains_;
    std::vector<size_t> crossed_; // by line: layers
    std::vector<std::vector<size_t>> layers_;
};

} // namespace

Drawing draw_layers(size_t boxes, const std::vector<DrawnLine> &lines, const DrawingSizes &sizes) {
    return Layers(boxes, lines, sizes).drawing();
}

} // namespace kumiko::graph
