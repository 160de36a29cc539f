#include "schedules/library/table.h"

#include "dsl/extern.h"
#include "dsl/scatter.h"
#include "machine/machine.h"
#include "schedules/library/attention.h"
#include "schedules/library/chip_conv.h"
#include "schedules/library/chip_depthwise.h"
#include "schedules/library/chip_elementwise.h"
#include "schedules/library/chip_gather.h"
#include "schedules/library/chip_matmul.h"
#include "schedules/library/chip_packed_matmul.h"
#include "schedules/library/chip_pool.h"
#include "schedules/library/chip_reduce.h"
#include "schedules/library/chip_rows.h"
#include "schedules/library/chip_transpose.h"
#include "schedules/library/conv.h"
#include "schedules/library/conv_filters.h"
#include "schedules/library/depthwise.h"
#include "schedules/library/depthwise_last.h"
#include "schedules/library/dots.h"
#include "schedules/library/elementwise.h"
#include "schedules/library/gemv.h"
#include "schedules/library/matmul.h"
#include "schedules/library/reduce.h"
#include "schedules/library/rows.h"
#include "schedules/library/scatter.h"
#include "schedules/library/stages.h"
#include "schedules/library/structure.h"
#include "schedules/library/transpose.h"
#include "schedules/library/winograd.h"
#include "support/names.h"

#include <cmath>

namespace kumiko::library {

namespace {

// Accumulators beyond the registers are spilled at every step; such a tile is slow to compile and
// to run.
std::string against_spills(int64_t accumulators, const Machine &machine) {
    return accumulators > accumulator_registers(machine) + 3 ? "more accumulators than registers" : "";
}

std::string against_matmul(const Op &, const Machine &machine, const MatmulParameters &p) {
    return against_spills(p.rows * p.vectors, machine);
}

std::string against_conv(const Op &, const Machine &machine, const ConvParameters &p) {
    return against_spills(p.channels * p.image_rows * p.vectors, machine);
}

std::string against_conv_filters(const Op &, const Machine &machine, const ConvFiltersParameters &p) {
    if (p.pool_rows > 0 && !p.through_rows) return "tiles of a pool need through_rows";
    return against_spills(p.pixels * p.vectors, machine);
}

std::string against_winograd(const Op &, const Machine &machine, const WinogradParameters &p) {
    return against_spills(p.tiles * p.vectors, machine);
}

std::string against_depthwise(const Op &, const Machine &machine, const DepthwiseParameters &p) {
    return p.order.is("taps") ? against_spills(p.image_rows, machine) : "";
}

std::string against_depthwise_last(const Op &, const Machine &machine, const DepthwiseLastParameters &p) {
    return against_spills(p.pixels * p.vectors, machine);
}

// Points that the chip's planner would refuse, as far as the cycle estimate knows.
std::string against_cycles(double cycles) { return std::isfinite(cycles) ? "" : "more than the chip's memories hold"; }

std::string against_chip_matmul(const Op &op, const Machine &machine, const ChipMatmulParameters &p) {
    if (p.halves && (p.pieces > 1 || p.sides || p.twice))
        return "halves of the L1Bs leave no choice of pieces, sides and twice";
    return against_cycles(chip_matmul_cycles(op, machine, p));
}

std::string against_chip_packed_matmul(const Op &op, const Machine &machine, const ChipPackedMatmulParameters &p) {
    return against_cycles(chip_packed_matmul_cycles(op, machine, p));
}

std::string against_chip_conv(const Op &op, const Machine &machine, const ChipConvParameters &p) {
    return against_cycles(chip_conv_cycles(op, machine, p));
}

} // namespace

const std::vector<LibraryTemplate> &templates() {
    static const std::vector<LibraryTemplate> table = {
        make_template<ScatterParameters>("scatter", "values added to the elements that an index selects", is_scatter,
                                         scatter_parameters, schedule_scatter),
        make_template<DotsParameters>("dots", "products of matrices with a few columns, as dot products", is_dots,
                                      dots_parameters, schedule_dots_of_rows),
        make_template<GemvParameters>("gemv", "products of a matrix with a vector", is_gemv, gemv_parameters,
                                      schedule_gemv),
        make_template<MatmulParameters>("matmul", "products of matrices, with a fused epilogue", is_matmul,
                                        matmul_parameters, schedule_matmul, against_matmul, nullptr, is_matmul),
        make_template<DepthwiseParameters>("depthwise", "convolutions of each channel, in vectors along rows",
                                           is_depthwise, depthwise_parameters, schedule_depthwise, against_depthwise),
        make_template<DepthwiseLastParameters>("depthwise_last", "convolutions of each channel, in vectors of channels",
                                               is_depthwise_last, depthwise_last_parameters, schedule_depthwise_last,
                                               against_depthwise_last),
        make_template<ConvFiltersParameters>("conv_filters", "direct convolutions in vectors of filters",
                                             is_conv_by_filters, conv_filters_parameters, schedule_conv_filters,
                                             against_conv_filters, nullptr, is_conv_for_filters),
        make_template<ConvParameters>("conv", "direct convolutions, dense, grouped, depthwise and transposed", is_conv,
                                      conv_parameters, schedule_conv, against_conv),
        make_template<WinogradParameters>("winograd", "convolutions by minimal filtering", is_winograd,
                                          winograd_parameters, schedule_winograd, against_winograd, nullptr,
                                          is_winograd),
        make_template<AttentionParameters>("attention", "softmax of products, and its product with values",
                                           is_attention, attention_parameters, schedule_attention),
        make_template<RowsParameters>("rows", "reductions, softmax and norms along the last axis", is_rows,
                                      rows_parameters, schedule_rows),
        make_template<ReduceParameters>("reduce", "reductions over all axes, or that keep the last axis", is_reduce,
                                        reduce_parameters, schedule_reduce),
        make_template<TransposeParameters>("transpose", "matrices transposed and axes permuted", is_transpose,
                                           transpose_parameters, schedule_transpose),
        make_template<ElementwiseParameters>("elementwise", "elementwise chains, and any other op", is_elementwise,
                                             elementwise_parameters, schedule_elementwise),
        make_template<StagesParameters>("stages", "any op, each stage in loops of its own", is_stages,
                                        stages_parameters, schedule_stages),
    };
    return table;
}

const LibraryTemplate *find_template(const Op &op) {
    for (const LibraryTemplate &t : templates()) {
        if (t.matches(op)) return &t;
    }
    return nullptr;
}

bool suits(const LibraryTemplate &t, const Op &op, const Machine &machine) {
    return t.name != "conv_filters" || !prefers_vectors_of_pixels(op, machine);
}

bool pays_to_pack_ahead(const Op &op, const Machine &machine) {
    for (const LibraryTemplate &t : templates()) {
        if (t.packs_ahead && t.packs_ahead(op)) return suits(t, op, machine);
    }
    return false;
}

const std::vector<LibraryTemplate> &chip_templates() {
    static const std::vector<LibraryTemplate> table = {
        make_template<ChipMatmulParameters>("chip_matmul", "products of matrices on the chip's matrix units",
                                            is_chip_matmul, chip_matmul_parameters, schedule_chip_matmul,
                                            against_chip_matmul, chip_matmul_cycles),
        make_template<ChipPackedMatmulParameters>("chip_packed_matmul", "the same, with operands packed ahead of time",
                                                  is_chip_packed_matmul, chip_packed_matmul_parameters,
                                                  schedule_chip_packed_matmul, against_chip_packed_matmul,
                                                  chip_packed_matmul_cycles),
        make_template<ChipConvParameters>("chip_conv", "convolutions on the chip's matrix units, dense and in groups",
                                          is_chip_conv, chip_conv_parameters, schedule_chip_conv, against_chip_conv,
                                          chip_conv_cycles),
        make_template<ChipDepthwiseParameters>("chip_depthwise", "convolutions of each channel on the chip's vectors",
                                               is_chip_depthwise, chip_depthwise_parameters, schedule_chip_depthwise),
        make_template<ChipRowsParameters>("chip_rows", "reductions, softmax and norms along the last axis, on the chip",
                                          is_chip_rows, chip_rows_parameters, schedule_chip_rows),
        make_template<ChipReduceParameters>("chip_reduce", "reductions along any axes, on the chip", is_chip_reduce,
                                            chip_reduce_parameters, schedule_chip_reduce),
        make_template<ChipPoolParameters>("chip_pool", "reductions over windows of images, on the chip", is_chip_pool,
                                          chip_pool_parameters, schedule_chip_pool),
        make_template<ChipTransposeParameters>("chip_transpose", "matrices transposed and axes permuted, on the chip",
                                               is_chip_transpose, chip_transpose_parameters, schedule_chip_transpose),
        make_template<ChipGatherParameters>("chip_gather", "rows of a table by number, on the chip", is_chip_gather,
                                            chip_gather_parameters, schedule_chip_gather),
        make_template<ChipElementwiseParameters>("chip_elementwise", "elementwise chains on the chip's vectors",
                                                 is_chip_elementwise, chip_elementwise_parameters,
                                                 schedule_chip_elementwise),
    };
    return table;
}

void require_chip_program(const Op &op) {
    if (!op.sizes().empty())
        throw UserError("op " + op.name() + " has size " + op.sizes().front() +
                        ", known only at run time; programs of the chip are made for given sizes");
    for (const Input &in : op.inputs()) {
        if (in.inout)
            throw Unsupported("op " + op.name() + " updates its input " + in.name +
                              " in place; programs of the chip have outputs of their own");
    }
    for (const Stage &s : op.stages()) {
        if (is_extern(s))
            throw Unsupported("stage " + s.name + " of op " + op.name() +
                              " is made by an extern function, which the chip cannot call");
        if (s.reads_itself())
            throw Unsupported("stage " + s.name + " of op " + op.name() +
                              " reads its own earlier elements; the chip has no scans and recurrences");
        if (const auto scatter = scattered(s))
            throw Unsupported("stage " + s.name + " of op " + op.name() + " is a scatter along " + scatter->axis +
                              "; the chip has no stores at data-dependent addresses");
        for (const Axis &k : s.reduction_axes) {
            if (constant_extent(k) == 0)
                throw Unsupported("stage " + s.name + " of op " + op.name() + " reduces over axis " + k.name() +
                                  ", which has no elements; the chip's reductions have one at least");
        }
    }
}

const LibraryTemplate *fitting_template(const Op &op, const Machine &machine) {
    if (machine.architecture != "chip") {
        for (const LibraryTemplate &t : templates()) {
            if (t.matches(op) && suits(t, op, machine)) return &t;
        }
        return nullptr;
    }
    require_chip_program(op);
    for (const LibraryTemplate &t : chip_templates()) {
        if (t.name == "chip_matmul" && t.matches(op) && !chip_matmul_fits(op, machine)) continue;
        // Rows that only one reduction reads may stream through LM; a few rows are distributed over
        // several units each.
        if (t.name == "chip_rows" && is_chip_reduce(op) && t.matches(op) &&
            !(chip_rows_fits(op, machine) && chip_rows_fill(op, machine)))
            continue;
        if (t.matches(op)) return &t;
    }
    return nullptr;
}

namespace {

const LibraryTemplate *find_packed_template(const Op &op, const Machine &machine) {
    for (const LibraryTemplate &t : machine.architecture == "chip" ? chip_templates() : templates()) {
        if (t.packs_ahead && t.packs_ahead(op)) return &t;
    }
    throw Unsupported("no schedule of the library has the caller pack an operand of op \"" + op.name() +
                      "\" ahead of time" +
                      (machine.architecture == "chip" ? " on a chip, where hosts pack what its schedules say" : "") +
                      "; those of matrix products and of convolutions that sum over channels do, on processors");
}

} // namespace

const LibraryTemplate *find_template(const Op &op, const Machine &machine, PackedBy packed_by) {
    if (packed_by == PackedBy::Caller) return find_packed_template(op, machine);
    if (const LibraryTemplate *t = fitting_template(op, machine)) return t;
    throw Unsupported(
        "the library has no schedule of op " + op.name() +
        " for the chip; it has products of matrices and convolutions of f16 or f32 with f32 sums, "
        "reductions along any axes, norms along the last one, reductions over windows of images, elementwise chains, "
        "permutations of axes, and rows of a table by number");
}

std::unique_ptr<Space> space_of(const Op &op, const Machine &machine, PackedBy packed_by) {
    return find_template(op, machine, packed_by)->make_space(op, machine, packed_by);
}

const LibraryTemplate &template_named(const std::string &name) {
    std::vector<std::string> names;
    for (const auto *table : {&templates(), &chip_templates()}) {
        for (const LibraryTemplate &t : *table) {
            if (t.name == name) return t;
            names.push_back(t.name);
        }
    }
    throw UserError("there is no library schedule \"" + name + "\"" + suggest(name, names));
}

} // namespace kumiko::library
