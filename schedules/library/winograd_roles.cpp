#include "schedules/library/winograd_roles.h"

#include "dsl/halide_passes.h"

#include <algorithm>

namespace kumiko::library {

using namespace Halide::Internal;

namespace {

std::string variable_of(const Expr &e) {
    const auto *v = e.as<Variable>();
    return v ? v->name : "";
}

// The axis at which a matrix is read that has a row less or more: an axis, or min(axis, last row).
std::string point_of(const Expr &e) {
    const auto *least = e.as<Min>();
    if (!least) return variable_of(e);
    if (is_const(least->b)) return variable_of(least->a);
    return is_const(least->a) ? variable_of(least->b) : "";
}

// Reads of the only tensor that a pointwise stage reads; empty if it reads several, or none.
std::vector<const Call *> reads_of_one(const Stage &s) {
    if (s.kind != Stage::Kind::Pointwise || s.reads_itself() || !s.value.defined()) return {};
    std::vector<const Call *> reads = tensor_reads(s.value);
    for (const Call *r : reads) {
        if (r->name != reads[0]->name) return {};
    }
    return reads;
}

// A stage that multiplies a matrix with one axis of another one: it reads `from` at constants of
// one axis, `along`, and at its own axes elsewhere. Its axis `made` replaces that axis.
struct OneTransform {
    std::string from, along, made;
    std::map<std::string, std::string> same; // its other axes → axes of `from`
};

std::optional<OneTransform> transform_of(const Op &op, const Stage &s) {
    const std::vector<const Call *> reads = reads_of_one(s);
    if (reads.empty()) return std::nullopt;
    const Stage *from = op.find_stage(reads[0]->name);
    if (!from || from->axes.size() != s.axes.size()) return std::nullopt;
    OneTransform t;
    t.from = from->name;
    for (size_t d = 0; d < from->axes.size(); d++) {
        const std::string own = variable_of(reads[0]->args[d]);
        for (const Call *r : reads) {
            if (own.empty() ? !as_const_int(r->args[d]) : variable_of(r->args[d]) != own) return std::nullopt;
        }
        if (!own.empty() && t.same.emplace(own, from->axes[d].name()).second) continue;
        if (!own.empty() || !t.along.empty()) return std::nullopt;
        t.along = from->axes[d].name();
    }
    for (const Axis &a : s.axes) {
        if (t.same.count(a.name())) continue;
        if (!t.made.empty()) return std::nullopt;
        t.made = a.name();
    }
    return t.along.empty() || t.made.empty() ? std::nullopt : std::optional(t);
}

// Renames the axes of a tensor to those of the stage that reads it. `names`: the stage's axis for
// each axis of the tensor.
WinogradAxes renamed(const WinogradAxes &of, const std::string &stage,
                     const std::map<std::string, std::string> &names) {
    const auto name = [&](const std::string &axis) {
        const auto found = names.find(axis);
        return found == names.end() ? "" : found->second;
    };
    WinogradAxes made{stage,
                      {},
                      name(of.u),
                      name(of.v),
                      name(of.down),
                      name(of.across),
                      name(of.channel),
                      name(of.filter),
                      name(of.inner_row),
                      name(of.inner_column)};
    for (const std::string &i : of.images) made.images.push_back(name(i));
    return made;
}

std::map<std::string, std::string> inverse(const std::map<std::string, std::string> &names) {
    std::map<std::string, std::string> all;
    for (const auto &[a, b] : names) all[b] = a;
    return all;
}

class Finding {
public:
    Finding(const Op &op, const Stage &products) : op_(op), products_(products) {}

    std::optional<WinogradRoles> find() {
        if (!products_.is_reduction() || products_.reduction_kind != "sum" || products_.reduction_axes.size() != 1 ||
            products_.components.size() != 1 || products_.bounded)
            return std::nullopt;
        const auto *product = products_.components[0].term.as<Mul>();
        const auto *a = product ? product->a.as<Call>() : nullptr, *b = product ? product->b.as<Call>() : nullptr;
        if (!a || !b) return std::nullopt;
        if (!(find_inputs(a, b) || find_inputs(b, a)) || !find_results() || !is_closed()) return std::nullopt;
        return r_;
    }

private:
    // The stages before the products.
    bool find_inputs(const Call *image, const Call *weights) {
        r_ = {};
        const Stage *points = op_.find_stage(image->name), *transformed = op_.find_stage(weights->name);
        if (!points || !transformed || points == transformed) return false;
        const auto last = transform_of(op_, *points);
        const Stage *rows = last ? op_.find_stage(last->from) : nullptr;
        std::map<std::string, std::string> names; // of points → of products
        for (size_t d = 0; d < image->args.size(); d++) {
            const std::string own = variable_of(image->args[d]);
            if (own.empty() || !names.emplace(points->axes[d].name(), own).second) return false;
        }
        if (!rows) return false;
        std::string channel; // of rows
        for (const auto &[of_points, of_rows] : last->same) {
            if (names.at(of_points) == products_.reduction_axes[0].name()) channel = of_rows;
        }
        if (!find_rows(*rows, last->along, channel)) return false;
        r_.points = renamed(r_.rows, points->name, inverse(last->same));
        r_.points.v = last->made, r_.points.inner_column = "";
        r_.products = renamed(r_.points, products_.name, names);
        return r_.products.channel == products_.reduction_axes[0].name() && find_weights(*transformed, weights);
    }

    // The first transform of the image: it reads the image at row down · a + k, column across · a +
    // inner_column, and at its own axes elsewhere, one of which is `channel`.
    bool find_rows(const Stage &rows, const std::string &inner_column, const std::string &channel) {
        const std::vector<const Call *> reads = reads_of_one(rows);
        if (reads.empty()) return false;
        const Stage *stage = op_.find_stage(reads[0]->name);
        const Input *input = op_.find_input(reads[0]->name);
        if (!stage && !input) return false;
        const std::vector<Axis> &axes = stage ? stage->axes : input->axes;
        WinogradAxes &own = r_.rows, &image = r_.image;
        own.stage = rows.name, own.inner_column = inner_column, image.stage = reads[0]->name;
        std::set<std::string> used = {inner_column};
        std::vector<std::pair<std::string, std::string>> plain; // axes of rows, of the image
        for (size_t d = 0; d < axes.size(); d++) {
            const Expr &index = reads[0]->args[d];
            std::vector<std::string> in;
            for (const Axis &a : rows.axes) {
                if (expr_uses_var(index, a.name())) in.push_back(a.name());
            }
            const bool column = std::count(in.begin(), in.end(), inner_column) > 0;
            std::erase(in, inner_column);
            if (in.size() != 1 || !used.insert(in[0]).second) return false;
            for (const Call *r : reads) {
                const Expr apart = simplify(r->args[d] - index);
                if (column ? !is_const_zero(apart) : !as_const_int(apart)) return false;
            }
            if (column) {
                if (!own.across.empty() || slope_of(index, inner_column) != 1) return false;
                own.across = in[0], image.across = axes[d].name();
            } else if (!variable_of(index).empty()) {
                plain.emplace_back(in[0], axes[d].name());
            } else {
                if (!own.down.empty()) return false;
                own.down = in[0], image.down = axes[d].name();
            }
        }
        for (const Axis &a : rows.axes) {
            if (used.count(a.name())) continue;
            if (!own.u.empty()) return false;
            own.u = a.name();
        }
        if (own.u.empty() || own.down.empty() || own.across.empty() || plain.empty()) return false;
        for (const auto &[name, of_image] : plain) {
            if (name == channel)
                own.channel = name, image.channel = of_image;
            else
                own.images.push_back(name), image.images.push_back(of_image);
        }
        if (own.channel.empty()) return false;
        if (stage && stage->kind == Stage::Kind::Padding) r_.padding = stage->name;
        return true;
    }

    bool find_weights(const Stage &stage, const Call *read) {
        const std::vector<const Call *> reads = reads_of_one(stage);
        if (reads.empty() || stage.axes.size() != 4) return false;
        WinogradAxes &own = r_.weights, &of = r_.products;
        own.stage = stage.name;
        for (size_t d = 0; d < 4; d++) {
            const std::string at = point_of(read->args[d]), name = stage.axes[d].name();
            std::string &role = at == of.u ? own.u : at == of.v ? own.v : at == of.channel ? own.channel : own.filter;
            if (at.empty() || !role.empty()) return false;
            role = name;
            if (&role == &own.filter) of.filter = at;
        }
        // The products have no further axes.
        if (own.u.empty() || own.v.empty() || own.channel.empty() || own.filter.empty() ||
            products_.axes.size() != of.images.size() + 5)
            return false;
        const std::string &weights = reads[0]->name;
        r_.one_weights = op_.find_input(weights) && readers_of(weights) == std::set<std::string>{stage.name};
        return true;
    }

    // The stages after the products.
    bool find_results() {
        const Stage *half = only_reader(products_.name);
        const auto first = half ? transform_of(op_, *half) : std::nullopt;
        if (!first || first->along != r_.products.u) return false;
        r_.half = renamed(r_.products, half->name, inverse(first->same));
        r_.half.inner_row = first->made;
        const Stage *tiles = only_reader(half->name);
        const auto second = tiles ? transform_of(op_, *tiles) : std::nullopt;
        if (!second || second->along != r_.half.v) return false;
        r_.tiles = renamed(r_.half, tiles->name, inverse(second->same));
        r_.tiles.inner_column = second->made;
        r_.tile = constant_extent(*find_axis(*tiles, r_.tiles.inner_column)).value_or(0);
        if (r_.tile < 2 || constant_extent(*find_axis(*tiles, r_.tiles.inner_row)) != r_.tile) return false;
        const Stage *result = only_reader(tiles->name);
        return result && find_pixels(*result, *tiles) && follow_result();
    }

    // Whether the stage reads the tiles at its own pixels, all at the same.
    bool find_pixels(const Stage &result, const Stage &tiles) {
        if (result.kind != Stage::Kind::Pointwise || result.reads_itself() || !result.updates.empty()) return false;
        const Call *read = nullptr;
        for (const Call *r : tensor_reads(result.value)) {
            if (r->name != tiles.name) continue;
            if (read && !std::equal(r->args.begin(), r->args.end(), read->args.begin(),
                                    [](const Expr &a, const Expr &b) { return equal(a, b); }))
                return false;
            read = r;
        }
        WinogradAxes &own = r_.result, &of = r_.tiles;
        own.stage = result.name;
        std::map<std::string, Expr> at; // by axes of the tiles
        for (size_t d = 0; d < read->args.size(); d++) at[tiles.axes[d].name()] = simplify(read->args[d]);
        const auto pixel = [&](const std::string &tile, const std::string &inner) -> std::string {
            const auto *quotient = at[tile].as<Div>();
            const auto *rest = at[inner].as<Mod>();
            if (!quotient || !rest || as_const_int(quotient->b) != r_.tile || as_const_int(rest->b) != r_.tile ||
                variable_of(quotient->a) != variable_of(rest->a))
                return "";
            return variable_of(quotient->a);
        };
        own.down = pixel(of.down, of.inner_row), own.across = pixel(of.across, of.inner_column);
        own.filter = variable_of(at[of.filter]);
        std::set<std::string> all = {own.down, own.across, own.filter};
        for (const std::string &i : of.images) own.images.push_back(variable_of(at[i])), all.insert(own.images.back());
        const std::string &last = result.axes.back().name();
        return !all.count("") && all.size() == result.axes.size() && (last == own.filter || last == own.across);
    }

    // Makes the last of a closed chain of pointwise stages the result; those before are inlined.
    bool follow_result() {
        constexpr size_t most = 8;
        const Stage *end = op_.find_stage(r_.result.stage);
        std::vector<const Stage *> chain = {end};
        std::set<std::string> names = {end->name};
        for (const Stage &s : op_.stages()) {
            if (chain.size() == most || op_.is_output(chain.back()->name)) break;
            const auto reads = reads_of_tensors(s.expressions(), names);
            if (reads.empty()) continue;
            if (s.kind != Stage::Kind::Pointwise || s.reads_itself() || !s.updates.empty() ||
                s.axes.size() != end->axes.size() ||
                !std::all_of(reads.begin(), reads.end(), [&](const Call *r) { return reads_at(r, s.axes); }))
                break;
            chain.push_back(&s), names.insert(s.name);
            const bool closed = std::all_of(chain.begin(), chain.end() - 1, [&](const Stage *c) {
                const std::set<std::string> readers = readers_of(c->name);
                return !op_.is_output(c->name) &&
                       std::includes(names.begin(), names.end(), readers.begin(), readers.end());
            });
            if (!closed) continue;
            std::map<std::string, std::string> same;
            for (size_t d = 0; d < end->axes.size(); d++) same[end->axes[d].name()] = s.axes[d].name();
            r_.result = renamed(r_.result, s.name, same);
            r_.inlined.clear();
            for (const Stage *c : chain) {
                if (c != &s) r_.inlined.push_back(c->name);
            }
            end = &s;
        }
        return true;
    }

    // Whether other stages and callers read only the result.
    bool is_closed() {
        r_.stages = {r_.rows.stage, r_.points.stage, r_.weights.stage, r_.products.stage,
                     r_.half.stage, r_.tiles.stage,  r_.result.stage};
        r_.stages.insert(r_.inlined.begin(), r_.inlined.end());
        // A padded image with other readers is an image like any other.
        if (!r_.padding.empty() &&
            (readers_of(r_.padding) != std::set<std::string>{r_.rows.stage} || op_.is_output(r_.padding)))
            r_.padding.clear();
        if (!r_.padding.empty()) r_.stages.insert(r_.padding);
        return std::all_of(r_.stages.begin(), r_.stages.end(), [&](const std::string &name) {
            if (name == r_.result.stage) return true;
            const std::set<std::string> readers = readers_of(name);
            return !op_.is_output(name) &&
                   std::includes(r_.stages.begin(), r_.stages.end(), readers.begin(), readers.end());
        });
    }

    std::set<std::string> readers_of(const std::string &tensor) const {
        std::set<std::string> all;
        for (const Stage &s : op_.stages()) {
            if (!reads_of_tensors(s.expressions(), {tensor}).empty()) all.insert(s.name);
        }
        return all;
    }
    const Stage *only_reader(const std::string &tensor) const {
        const std::set<std::string> all = readers_of(tensor);
        return all.size() == 1 && !op_.is_output(tensor) ? op_.find_stage(*all.begin()) : nullptr;
    }

    const Op &op_;
    const Stage &products_;
    WinogradRoles r_;
};

} // namespace

std::optional<WinogradRoles> winograd_roles(const Op &op, const Stage &products) {
    return Finding(op, products).find();
}

} // namespace kumiko::library
