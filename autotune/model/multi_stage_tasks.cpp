// Ops of several stages for training. One file, because it is one table: a method for each
// structure that a chain of stages may have.
#include "autotune/model/multi_stage_tasks.h"

#include "dsl/recurrence.h"
#include "dsl/scan.h"
#include "support/error.h"
#include "support/random.h"

#include <optional>

namespace kumiko {

namespace {

// A tensor to which structures are appended, each as one or more stages that read the previous one.
class Chain {
public:
    // Layout of the input's elements.
    enum class Shape {
        Any,
        Pixels,   // innermost axis of two to four channels
        Matrices, // a batch of 2×2 to 4×4 matrices
    };

    explicit Chain(uint64_t seed, Shape shape = Shape::Any) : random_(seed) {
        const double kind = random_.real();
        if (kind < 0.08)
            value_ = stored_ = f64;
        else if (kind < 0.18)
            stored_ = bf16;
        else if (kind < 0.26)
            stored_ = i8;
        static const std::vector<int64_t> rows = {24, 32, 48, 64, 96, 100, 128, 192, 197, 256, 384};
        static const std::vector<int64_t> columns = {32, 48, 64, 80, 96, 100, 128, 150, 192, 256, 320, 512};
        const bool deep = random_.chance(0.45), is_short = random_.chance(0.3) && shape == Shape::Any;
        std::vector<Axis> axes;
        if (shape == Shape::Matrices) {
            for (const int64_t n : {random_.between(500, 8000), random_.between(2, 4), random_.between(2, 4)})
                axes.push_back(axis(n));
            now_ = new_input(axes);
            return;
        }
        if (deep) axes.push_back(axis(random_.pick(std::vector<int64_t>{2, 3, 4, 8, 12, 16, 24, 32})));
        axes.push_back(axis(deep ? random_.pick(std::vector<int64_t>{12, 16, 24, 28, 32, 49, 56, 64, 100})
                                 : random_.pick(rows) * (is_short ? 8 : 1)));
        axes.push_back(axis(is_short ? random_.between(3, 40) : random_.pick(columns)));
        if (shape == Shape::Pixels) axes.push_back(axis(random_.between(2, 4)));
        now_ = new_input(axes);
    }

    using Append = bool (Chain::*)();
    struct Structure {
        const char *name;
        Append append; // false if it does not fit the tensor's shape
    };
    static const std::vector<Structure> &structures();
    static const Structure from_pixels, to_pixels, small_products;

    bool append(const Structure &s) { return (this->*s.append)(); }

    // Sometimes appends a pointwise stage, as in real formulas.
    void maybe_pointwise(double probability) {
        if (random_.chance(probability)) activate();
    }

    // Returns nullopt if the op is too small, too large, or has too many stages.
    std::optional<Op> finish(const std::string &name, bool two_outputs = false) {
        if (stored_ == bf16 && random_.chance(0.6)) stage(now_.axes(), cast(bf16, read()));
        if (now_.contents().kind != TensorContents::Kind::Compute) return {};
        std::vector<Tensor> outputs = {now_};
        if (two_outputs) {
            activate();
            outputs.push_back(now_);
        }
        Op op(name, inputs_, outputs);
        const size_t n = op.stages().size();
        double work = 0; // estimated ns
        for (const Stage &s : op.stages()) work += iterations(s) * (s.reduction_axes.empty() ? 0.3 : 0.08);
        if (n < 2 || n > 10 || work < 30e3 || work > 500e3) return {};
        return op;
    }

    Random &random() { return random_; }

private:
    Random random_;
    Type value_ = f32, stored_ = f32; // compute type; type of inputs
    std::vector<Tensor> inputs_;
    Tensor now_ = Tensor(input("X", f32, {}));
    int axes_ = 0, stages_ = 0;

    static double iterations(const Stage &s) {
        double all = 1;
        for (const std::vector<Axis> &axes : {s.axes, s.reduction_axes}) {
            for (const Axis &a : axes) all *= static_cast<double>(extent(a));
        }
        return all;
    }
    static int64_t extent(const Axis &a) { return *Halide::Internal::as_const_int(a.extent()); }
    int64_t last() const { return extent(now_.axes().back()); }
    int64_t row_count() const { return extent(now_.axes()[now_.rank() - 2]); }

    Axis axis(int64_t n) { return Axis("a" + std::to_string(axes_++), static_cast<int>(n)); }
    Axis axis_among(const std::vector<int64_t> &extents) { return axis(random_.pick(extents)); }
    Tensor new_input(const std::vector<Axis> &axes) {
        inputs_.push_back(input(inputs_.empty() ? "X" : "W" + std::to_string(inputs_.size()), stored_, axes));
        return inputs_.back();
    }
    Tensor new_indices(const std::vector<Axis> &axes) {
        inputs_.push_back(input("W" + std::to_string(inputs_.size()), i32, axes));
        return inputs_.back();
    }

    void stage(const std::vector<Axis> &axes, const Expr &value) {
        now_ = compute("s" + std::to_string(stages_++), axes, value);
    }
    // An element converted to the compute type.
    Element load(const Tensor &t, const std::vector<Expr> &at) const {
        const Element e = t.at(at);
        if (t.type() == value_) return e;
        return t.type() == i8 ? cast(value_, e) * 0.03125f : cast(value_, e);
    }
    static std::vector<Expr> at(const std::vector<Axis> &axes) { return {axes.begin(), axes.end()}; }
    Element read(const std::vector<Expr> &indices) const { return load(now_, indices); }
    Element read() const { return read(at(now_.axes())); }
    Element weight(const std::vector<Axis> &axes) { return load(new_input(axes), at(axes)); }
    // The tensor's axes, with those from `first` on replaced.
    std::vector<Axis> with(size_t first, const std::vector<Axis> &others) const {
        std::vector<Axis> axes(now_.axes().begin(), now_.axes().begin() + static_cast<long>(first));
        axes.insert(axes.end(), others.begin(), others.end());
        return axes;
    }
    std::vector<Axis> outer() const { return with(now_.rank() - 1, {}); }
    Element share(int64_t n) const { // 1/n
        return Element(Halide::Internal::make_const(value_, 1.0 / static_cast<double>(n)));
    }

    Element activated(const Element &x) {
        switch (random_.below(6)) {
        case 0:
            return relu(x);
        case 1:
            return silu(x);
        case 2:
            return gelu_tanh(x);
        case 3:
            return tanh(x);
        case 4:
            return hard_swish(x);
        default:
            return sigmoid(x);
        }
    }
    void activate() { stage(now_.axes(), activated(read())); }

    // ---- structures; each comment gives the result in terms of x(…, i, j)

    // sum over j: x(…, i, j) · W(j, o), optionally with a bias and an activation.
    bool product() {
        if (last() < 8) return false;
        const Axis i = now_.axes()[now_.rank() - 2], j = now_.axes().back();
        const Axis o = axis_among({16, 24, 32, 40, 48, 64, 96, 128});
        const std::vector<Axis> axes = with(now_.rank() - 1, {o});
        if (now_.type() == i8) {
            const Element x = cast(i32, now_.at(at(now_.axes()))), w = cast(i32, new_input({j, o}).at({j, o}));
            stage(axes, sum(x * w, j));
            stage(axes, cast(f32, now_.at(at(axes))) * 0.0009765625f);
        } else {
            stage(axes, sum(read() * weight({j, o}), j));
        }
        if (random_.chance(0.6)) stage(axes, activated(read() + weight({o})));
        return true;
    }

    // sum over j: x(b, i, j) · W(b, j, o): one W per b.
    bool batched_product() {
        if (now_.rank() < 3 || last() < 4) return false;
        const Axis b = now_.axes()[0], j = now_.axes().back(), o = axis_among({8, 16, 24, 32, 48, 64});
        stage(with(now_.rank() - 1, {o}), sum(read() * weight({b, j, o}), j));
        return true;
    }

    // sum over j: x(…, i, j) · x(…, k, j), scaled: all pairs of rows.
    bool rows_with_rows() {
        if (row_count() > 260 || last() < 8) return false;
        const Axis j = now_.axes().back(), k = axis(row_count());
        std::vector<Expr> other = at(now_.axes());
        other[now_.rank() - 2] = k;
        stage(with(now_.rank() - 1, {k}), sum(read() * read(other), j) * share(last()));
        return true;
    }

    // Convolution with windows of 3 or 3×3 over all channels (the first axis), zero-padded.
    bool convolution() {
        const size_t r = now_.rank();
        if (extent(now_.axes()[0]) > 64 || last() < 8) return false;
        const Axis c = now_.axes()[0], o = axis_among({8, 16, 24, 32}), v = axis(3), u = axis(3);
        std::vector<Axis> axes = now_.axes();
        const Tensor padded = zero_padded(now_);
        std::vector<Expr> place = at(axes);
        place[r - 1] = axes[r - 1] + u - 1;
        if (r == 3) place[1] = axes[1] + v - 1;
        axes[0] = o;
        const Element x = load(padded, place);
        if (r == 3)
            stage(axes, sum(x * weight({o, c, v, u}), {c, v, u}));
        else
            stage(axes, sum(x * weight({o, c, u}), {c, u}));
        if (random_.chance(0.5)) stage(axes, activated(read() + weight({o})));
        return true;
    }

    // Depthwise convolution with windows of 3 to 7, or 3×3.
    bool depthwise() {
        const size_t r = now_.rank();
        if (last() < 8) return false;
        const std::vector<Axis> axes = now_.axes();
        const Tensor padded = random_.chance(0.7) ? zero_padded(now_) : clamped(now_);
        std::vector<Expr> place = at(axes);
        if (r == 3 && random_.chance(0.6)) {
            const Axis v = axis(3), u = axis(3);
            place[1] = axes[1] + v - 1, place[2] = axes[2] + u - 1;
            stage(axes, sum(load(padded, place) * weight({axes[0], v, u}), {v, u}));
        } else {
            const int64_t n = random_.pick(std::vector<int64_t>{3, 4, 5, 7});
            const Axis u = axis(n);
            place[r - 1] = axes[r - 1] + u - static_cast<int>(n / 2);
            stage(axes, sum(load(padded, place) * weight({axes[r - 2], u}), u));
        }
        return true;
    }

    // Separable stencil with constant weights, as in image filters.
    bool stencil() {
        const size_t r = now_.rank();
        if (last() < 6) return false;
        for (const size_t d : {r - 1, r - 2}) {
            const std::vector<Axis> axes = now_.axes();
            const Tensor around = random_.chance(0.5) ? zero_padded(now_) : clamped(now_);
            const auto near = [&](int by) {
                std::vector<Expr> place = at(axes);
                place[d] = axes[d] + by;
                return load(around, place);
            };
            Element value = near(0) * 0.5f + (near(-1) + near(1)) * 0.25f;
            if (random_.chance(0.3)) value = value + (near(-2) - near(2)) * 0.125f;
            stage(axes, value);
            if (random_.chance(0.4)) break;
        }
        return true;
    }

    // Maximum or mean of adjacent, non-overlapping windows of 2 or 2×2.
    bool pool() {
        const size_t r = now_.rank();
        if (last() < 8 || row_count() < 8) return false;
        std::vector<Axis> axes = now_.axes(), window;
        std::vector<Expr> place = at(axes);
        int64_t count = 1;
        for (const size_t d : {r - 1, r - 2}) {
            if (d != r - 1 && random_.chance(0.5)) continue;
            const int64_t n = random_.pick(std::vector<int64_t>{2, 2, 3, 4});
            window.push_back(axis(n));
            axes[d] = axis(extent(axes[d]) / n);
            place[d] = axes[d] * static_cast<int>(n) + window.back();
            count *= n;
        }
        const Element x = read(place);
        stage(axes, random_.chance(0.5) ? maximum(x, AxisList(window)) : sum(x, AxisList(window)) * share(count));
        return true;
    }

    // Rows normalised to mean 0 and variance 1, or to root mean square 1, times weights.
    bool norm() {
        const std::vector<Axis> axes = now_.axes(), rows = outer();
        const Axis j = axes.back();
        const Tensor x = now_;
        const bool centred = random_.chance(0.5);
        const Element part = share(last());
        if (centred) {
            stage(rows, sum(load(x, at(axes)), j) * part);
            const Tensor mean = now_;
            stage(axes, load(x, at(axes)) - mean.at(at(rows)));
        }
        const Tensor centre = now_;
        stage(rows, rsqrt(sum(square(load(centre, at(axes))), j) * part + 0.0009765625f));
        const Element scaled = load(centre, at(axes)) * now_.at(at(rows));
        stage(axes, random_.chance(0.6) ? scaled * weight({j}) : scaled);
        return true;
    }

    // exp(x − row maximum), divided by the row sum.
    bool softmax() {
        const std::vector<Axis> axes = now_.axes(), rows = outer();
        const Axis j = axes.back();
        const Tensor x = now_;
        stage(rows, maximum(load(x, at(axes)), j));
        stage(axes, exp(load(x, at(axes)) - now_.at(at(rows))));
        const Tensor power = now_;
        stage(rows, sum(power.at(at(axes)), j));
        stage(axes, power.at(at(axes)) / now_.at(at(rows)));
        return true;
    }

    // Rows shifted and scaled to [0, 1], or divided by their maximum.
    bool row_range() {
        const std::vector<Axis> axes = now_.axes(), rows = outer();
        const Axis j = axes.back();
        const Tensor x = now_;
        stage(rows, maximum(load(x, at(axes)), j));
        const Tensor most = now_;
        if (random_.chance(0.5)) {
            stage(rows, minimum(load(x, at(axes)), j));
            const Element least = now_.at(at(rows));
            stage(axes, (load(x, at(axes)) - least) / (most.at(at(rows)) - least + 0.125f));
        } else {
            stage(axes, load(x, at(axes)) / (abs(most.at(at(rows))) + 1.f));
        }
        return true;
    }

    // Columns minus their mean, or divided by their root mean square: reductions over rows.
    bool columns() {
        const size_t r = now_.rank();
        const std::vector<Axis> axes = now_.axes();
        std::vector<Axis> kept = axes;
        const Axis i = axes[r - 2];
        kept.erase(kept.begin() + static_cast<long>(r - 2));
        const Tensor x = now_;
        const Element part = share(row_count());
        if (random_.chance(0.5)) {
            stage(kept, sum(load(x, at(axes)), i) * part);
            stage(axes, load(x, at(axes)) - now_.at(at(kept)));
        } else {
            stage(kept, rsqrt(sum(square(load(x, at(axes))), i) * part + 0.0009765625f));
            stage(axes, load(x, at(axes)) * now_.at(at(kept)));
        }
        return true;
    }

    // A gather of rows, single or several summed with weights.
    bool gather() {
        const size_t r = now_.rank();
        const std::vector<Axis> axes = now_.axes();
        std::vector<Axis> made = axes;
        made[r - 2] = axis_among({32, 48, 64, 100, 128, 256});
        std::vector<Expr> place = at(axes);
        const Expr end = static_cast<int>(row_count() - 1);
        if (random_.chance(0.5)) {
            place[r - 2] = clamp(new_indices({made[r - 2]}).at({made[r - 2]}), 0, end);
            stage(made, read(place));
            activate();
        } else {
            const Axis l = axis_among({3, 4, 6, 8, 12});
            place[r - 2] = clamp(new_indices({made[r - 2], l}).at({made[r - 2], l}), 0, end);
            stage(made, sum(read(place) * weight({made[r - 2], l}), l));
        }
        return true;
    }

    // Prefix sums, or exponential moving averages, along rows or columns.
    bool scan_along() {
        const std::vector<Axis> axes = now_.axes();
        const size_t d = random_.chance(0.5) ? now_.rank() - 1 : now_.rank() - 2;
        if (random_.chance(0.4)) {
            stage(axes, scan([](const Expr &a, const Expr &b) { return a + b; },
                             Halide::Internal::make_const(value_, 0), read(), axes[d]));
            stage(axes, read() * share(extent(axes[d])));
        } else {
            const Element x = read();
            now_ = recurrence("s" + std::to_string(stages_++), value_, axes, Halide::Internal::make_const(value_, 0),
                              [&](const Earlier &y) {
                                  std::vector<Expr> before = at(axes);
                                  before[d] = axes[d] - 1;
                                  return Element(y.at(before)) * 0.75f + x * 0.25f;
                              });
        }
        return true;
    }

    // A transpose of two axes with a pointwise function, so that it is not just a different read
    // order.
    bool permute() {
        const size_t r = now_.rank();
        std::vector<Axis> axes = now_.axes();
        std::swap(axes[r - 1], axes[r == 3 && random_.chance(0.4) ? 0 : r - 2]);
        stage(axes, activated(read()));
        return true;
    }

    // Pairs of adjacent elements, or halves of rows: gating or rotation.
    bool strided() {
        if (last() < 8) return false;
        const size_t r = now_.rank();
        const int half = static_cast<int>(last() / 2);
        const Axis j = axis(half);
        const std::vector<Axis> axes = with(r - 1, {j});
        std::vector<Expr> first = at(axes), second = at(axes);
        if (random_.chance(0.6))
            first[r - 1] = j * 2, second[r - 1] = j * 2 + 1;
        else
            second[r - 1] = j + half;
        const Element a = read(first), b = read(second);
        if (random_.chance(0.5)) {
            stage(axes, a * sigmoid(b));
        } else {
            const Element w = weight({axes[r - 2], j});
            stage(axes, a * w - b * (w * w));
        }
        return true;
    }

    // Reduces the channels of each pixel to a plane.
    bool plane_of_pixels() {
        const std::vector<Axis> axes = outer();
        std::vector<Expr> place = at(now_.axes());
        Element value = share(last());
        for (int64_t c = 0; c < last(); c++) {
            place.back() = static_cast<int>(c);
            value = value + read(place) * (0.25f + 0.125f * static_cast<float>(c));
        }
        stage(axes, random_.chance(0.5) ? activated(value) : value);
        return true;
    }

    // Expands a plane to two to four channels per pixel.
    bool pixels_of_plane() {
        std::vector<Axis> axes = now_.axes();
        axes.push_back(axis(random_.between(2, 4)));
        stage(axes, activated(read() * weight({axes.back()}) + weight({axes.back()})));
        return true;
    }

    // Products of small matrices, or of a matrix with itself.
    bool products_of_small() {
        const Axis b = now_.axes()[0], i = now_.axes()[1], k = now_.axes()[2];
        const Axis j = axis(random_.between(2, 4));
        const bool itself = random_.chance(0.5);
        const Axis other = axis(row_count()); // all pairs of rows
        if (itself)
            stage({b, i, other}, sum(read({b, i, k}) * read({b, other, k}), k));
        else
            stage({b, i, j}, sum(read() * weight({b, k, j}), k));
        return true;
    }

    // Two pointwise stages with another tensor.
    bool pointwise() {
        stage(now_.axes(), activated(read() * weight({now_.axes().back()}) + weight(now_.axes())));
        activate();
        return true;
    }
};

const std::vector<Chain::Structure> &Chain::structures() {
    static const std::vector<Structure> all = {
        {"product", &Chain::product},
        {"batched_product", &Chain::batched_product},
        {"rows_with_rows", &Chain::rows_with_rows},
        {"convolution", &Chain::convolution},
        {"depthwise", &Chain::depthwise},
        {"stencil", &Chain::stencil},
        {"pool", &Chain::pool},
        {"norm", &Chain::norm},
        {"softmax", &Chain::softmax},
        {"row_range", &Chain::row_range},
        {"columns", &Chain::columns},
        {"gather", &Chain::gather},
        {"scan", &Chain::scan_along},
        {"permute", &Chain::permute},
        {"strided", &Chain::strided},
        {"pointwise", &Chain::pointwise},
    };
    return all;
}

const Chain::Structure Chain::from_pixels = {"from_pixels", &Chain::plane_of_pixels};
const Chain::Structure Chain::to_pixels = {"to_pixels", &Chain::pixels_of_plane};
const Chain::Structure Chain::small_products = {"small_products", &Chain::products_of_small};

// The structures of a chain; those after `parts` are added at random.
struct Plan {
    Chain::Shape shape = Chain::Shape::Any;
    std::vector<Chain::Structure> parts;
    int more = 0;
    bool two_outputs = false;
};

// Each ordered pair of structures; then each before and after a conversion between pixels and
// planes, and some after products of small matrices. Every other chain has two outputs.
std::vector<Plan> plans() {
    const auto &structures = Chain::structures();
    const size_t n = structures.size();
    std::vector<Plan> all;
    for (size_t by = 1; by < n; by++) {
        for (size_t i = 0; i < n; i++) all.push_back({Chain::Shape::Any, {structures[i], structures[(i + by) % n]}, 2});
    }
    for (const Chain::Structure &s : structures) {
        all.push_back({Chain::Shape::Pixels, {Chain::from_pixels, s}, 1});
        all.push_back({Chain::Shape::Any, {s, Chain::to_pixels}, 0});
    }
    for (const Chain::Structure &s : structures) {
        const std::string name = s.name;
        if (name == "norm" || name == "softmax" || name == "row_range" || name == "columns" || name == "gather" ||
            name == "scan" || name == "permute" || name == "pointwise")
            all.push_back({Chain::Shape::Matrices, {Chain::small_products, s}, 0});
    }
    for (size_t i = n * (n - 1); i < all.size(); i++) all[i].two_outputs = i / 2 % 2 == 0;
    return all;
}

TrainingTask make_task(size_t number, const Plan &plan) {
    const auto &structures = Chain::structures();
    constexpr uint64_t attempts = 2000;
    for (uint64_t attempt = 0; attempt < attempts; attempt++) {
        Chain chain(number * attempts + attempt, plan.shape);
        std::vector<Chain::Structure> parts = plan.parts;
        for (int more = 0; more < plan.more && chain.random().chance(0.4); more++)
            parts.push_back(structures[chain.random().below(structures.size())]);
        std::string name = "chain" + std::to_string(number);
        bool suits = true;
        chain.maybe_pointwise(0.2);
        for (size_t p = 0; p < parts.size() && suits; p++) {
            suits = chain.append(parts[p]);
            chain.maybe_pointwise(0.15);
            name += std::string(p == 0 ? " " : ", ") + parts[p].name;
        }
        if (!suits) continue;
        if (std::optional<Op> op = chain.finish("chain" + std::to_string(number), plan.two_outputs))
            return {name, *op, true};
    }
    throw InternalError("no shape suits the chain " + std::to_string(number));
}

} // namespace

std::vector<TrainingTask> multi_stage_tasks() {
    std::vector<TrainingTask> all;
    for (const Plan &plan : plans()) all.push_back(make_task(all.size(), plan));
    return all;
}

} // namespace kumiko
