// The C functions of a library: their argument order and their dispatch.
#include "driver/library_files.h"

#include "dsl/types.h"
#include "ops/registry.h"
#include "support/error.h"
#include "targets/lower/nest.h"

#include <map>

namespace kumiko {

namespace {

using Halide::Internal::as_const_int;
using Halide::Internal::is_const_zero;
using Halide::Internal::simplify;
using Halide::Internal::substitute;
using Halide::Internal::Variable;

std::set<std::string> sizes_in(const std::vector<Expr> &all) {
    struct Visitor : Halide::Internal::IRVisitor {
        using IRVisitor::visit;
        std::set<std::string> names;
        void visit(const Variable *v) override { names.insert(v->name); }
    } v;
    for (const Expr &e : all) e.accept(&v);
    return v.names;
}

// Per tensor, in the order of its strides: the sizes that only its strides use (leading
// dimensions).
std::vector<std::vector<std::string>> leading_dimensions(const Nest &nest) {
    std::map<std::string, int> tensors; // size → number of tensors whose strides use it
    std::set<std::string> extents;
    for (const TensorArgument &t : nest.tensors) {
        for (const std::string &s : sizes_in(t.strides)) tensors[s]++;
        for (const std::string &s : sizes_in(t.extents)) extents.insert(s);
    }
    std::vector<std::vector<std::string>> all;
    for (const TensorArgument &t : nest.tensors) {
        std::vector<std::string> own;
        for (const Expr &stride : t.strides) {
            for (const std::string &s : sizes_in({stride})) {
                if (tensors[s] == 1 && !extents.count(s) && !std::count(own.begin(), own.end(), s)) own.push_back(s);
            }
        }
        all.push_back(own);
    }
    return all;
}

std::vector<EntryParameter> parameters_of(const Nest &nest) {
    std::vector<EntryParameter> all;
    for (const TensorArgument &t : nest.tensors) all.push_back({t.name, true});
    for (const std::string &s : nest.sizes) all.push_back({s, false});
    return all;
}

// Of a kernel that a model calls, in addition.
const std::string workspace = "workspace", context = "context";

std::vector<EntryParameter> any_shape_parameters(const Nest &nest) {
    std::vector<EntryParameter> all;
    std::set<std::string> taken;
    const auto add_size = [&](const std::string &s) {
        if (std::count(nest.sizes.begin(), nest.sizes.end(), s) && taken.insert(s).second) all.push_back({s, false});
    };
    const auto leading = leading_dimensions(nest);
    for (size_t t = 0; t < nest.tensors.size(); t++) {
        all.push_back({nest.tensors[t].name, true});
        for (const std::string &s : leading[t]) add_size(s);
    }
    for (const std::string &s : nest.sizes) add_size(s);
    return all;
}

size_t position(const std::vector<EntryParameter> &parameters, const std::string &name, bool pointer) {
    for (size_t i = 0; i < parameters.size(); i++) {
        if (parameters[i].name == name && parameters[i].pointer == pointer) return i;
    }
    throw InternalError("an entry has no parameter " + name);
}

// The function of a nest as a dispatch target of an entry with these parameters.
EntryVariant way_to(const Nest &nest, const std::string &symbol, const std::vector<EntryParameter> &parameters,
                    bool pointers = true) {
    EntryVariant way{symbol, {}, {}, 0};
    if (pointers) {
        for (const TensorArgument &t : nest.tensors) way.arguments.push_back(position(parameters, t.name, true));
    }
    for (const std::string &s : nest.sizes) way.arguments.push_back(position(parameters, s, false));
    return way;
}

// Whether `fixed` computes `any` at some sizes, and for which values of `any`'s parameters.
std::optional<EntryVariant> way_to_fixed(const PackagedKernel &any, const PackagedKernel &fixed,
                                         const std::vector<EntryParameter> &parameters) {
    const LibraryKernel &a = *any.kernel, &f = *fixed.kernel;
    if (&a == &f || f.any_shape || f.op_name != a.op_name || a.op_name.empty() || !fixed.nest().packs.empty())
        return {};
    const ops::Operator op = ops::find_operator(a.op_name);
    std::map<std::string, Expr> bound;          // size of `any` → its value, or the same size
    std::map<std::string, std::string> renamed; // size of `fixed` → size of `any`
    EntryVariant way{fixed.symbol, {}, {}, 0};
    for (const ops::Parameter &p : op.parameters) {
        const Json &av = a.parameters->at(p.name), &fv = f.parameters->at(p.name);
        if (av == fv && !av.is_string()) continue;
        const bool open = p.kind == ops::Parameter::Kind::Size && av.is_string();
        if (open && fv.is_number()) {
            const int64_t value = fv.get<int64_t>();
            const std::string name = av.get<std::string>();
            const auto [it, fresh] = bound.emplace(name, Expr(static_cast<int32_t>(value)));
            // One size of `any` has two values.
            if (!fresh && as_const_int(it->second) != value) return {};
            if (fresh) way.equals.emplace_back(position(parameters, name, false), value);
        } else if (open && fv.is_string()) {
            const auto [it, fresh] = renamed.emplace(fv.get<std::string>(), av.get<std::string>());
            if (!fresh && it->second != av.get<std::string>()) return {};
        } else if (av != fv && !p.storage) {
            return {};
        }
    }
    if (way.equals.empty()) return {}; // not more specific than `any`
    const std::vector<TensorArgument> &at = any.nest().tensors, &ft = fixed.nest().tensors;
    if (at.size() != ft.size()) return {};
    std::map<std::string, Expr> names;
    for (const auto &[from, to] : renamed) names[from] = Variable::make(Int(32), to);
    for (size_t t = 0; t < at.size(); t++) {
        if (at[t].type != ft[t].type || at[t].strides.size() != ft[t].strides.size()) return {};
        for (size_t d = 0; d < at[t].strides.size(); d++) {
            const Expr want = simplify(substitute(names, ft[t].strides[d])),
                       have = simplify(substitute(bound, at[t].strides[d]));
            if (is_const_zero(simplify(want - have))) continue;
            const auto *v = have.as<Variable>();
            const auto value = as_const_int(want);
            if (!v || !value) return {};
            way.equals.emplace_back(position(parameters, v->name, false), *value);
            bound[v->name] = want; // also for what follows
        }
    }
    for (const TensorArgument &t : at) way.arguments.push_back(position(parameters, t.name, true));
    for (const std::string &s : fixed.nest().sizes) {
        const auto to = renamed.find(s);
        const std::string name = to == renamed.end() ? s : to->second;
        if (!std::count(any.nest().sizes.begin(), any.nest().sizes.end(), name)) return {};
        way.arguments.push_back(position(parameters, name, false));
    }
    return way;
}

// Throws if the variants of a kernel cannot share one C function.
void check_alike(const PackagedKernel &k) {
    for (const PackagedVariant &v : k.variants) {
        for (size_t t = 0; t < v.nest.tensors.size(); t++) {
            if (v.nest.tensors[t].packed_from != k.nest().tensors[t].packed_from)
                throw UserError("kernel " + k.kernel->name + ": its schedules for " + k.variants[0].name() + " and " +
                                v.name() +
                                " prepack different inputs, so that one C function cannot stand for both; prepack the "
                                "same ones, or give the targets a kernel each");
            if (v.nest.tensors[t].type != k.nest().tensors[t].type)
                throw UserError("kernel " + k.kernel->name + ": packed ahead of time, " +
                                v.nest.tensors[t].packed_from + " is of " + type_name(k.nest().tensors[t].type) +
                                " for " + k.variants[0].name() + " and of " + type_name(v.nest.tensors[t].type) +
                                " for " + v.name() +
                                ", so that one C function cannot stand for both; give the targets a kernel each, or "
                                "leave out packing ahead");
        }
    }
}

} // namespace

void make_entries(std::vector<PackagedKernel> &kernels) {
    for (PackagedKernel &k : kernels) {
        check_alike(k);
        const Nest &nest = k.nest();
        if (k.kernel->any_shape && !nest.packs.empty())
            throw Unsupported("kernel " + k.kernel->name + ": any_shape with an input that is packed ahead of time (" +
                              nest.packs[0].tensors[1].packed_from +
                              "): the packed array fits one kernel, so there is nothing to choose; leave out prepack, "
                              "or any_shape");
        Entry main{k.symbol, k.kernel->any_shape ? any_shape_parameters(nest) : parameters_of(nest), {}};
        if (k.kernel->any_shape) {
            for (const PackagedKernel &other : kernels) {
                if (const auto way = way_to_fixed(k, other, main.parameters)) main.variants.push_back(*way);
            }
            // The most specific one first.
            std::stable_sort(
                main.variants.begin(), main.variants.end(),
                [](const EntryVariant &a, const EntryVariant &b) { return a.equals.size() > b.equals.size(); });
        }
        const size_t own = main.parameters.size();
        main.internal = k.kernel->internal;
        if (main.internal) main.parameters.insert(main.parameters.end(), {{workspace, true}, {context, true}});
        for (const PackagedVariant &v : k.variants) {
            EntryVariant way = way_to(v.nest, k.symbol + "." + v.name(), main.parameters);
            if (main.internal) way.arguments.insert(way.arguments.end(), {own, own + 1});
            way.features = v.features;
            main.variants.push_back(way);
        }
        k.entries = {main};
        if (main.internal) continue; // the model's weights are packed
        for (size_t p = 0; p < nest.packs.size(); p++) {
            Entry pack{nest.packs[p].name, parameters_of(nest.packs[p]), {}};
            Entry elements{nest.packs[p].name + "_elements", {}, {}, true};
            for (const std::string &s : nest.packs[p].sizes) elements.parameters.push_back({s, false});
            for (const PackagedVariant &v : k.variants) {
                const Nest &n = v.nest.packs[p];
                EntryVariant way = way_to(n, n.name + "." + v.name(), pack.parameters);
                way.features = v.features;
                pack.variants.push_back(way);
                way = way_to(n, n.name + "_elements." + v.name(), elements.parameters, false);
                way.features = v.features;
                elements.variants.push_back(way);
            }
            k.entries.push_back(pack);
            k.entries.push_back(elements);
        }
    }
}

} // namespace kumiko
