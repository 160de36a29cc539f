#include "schedules/library/table.h"

#include "schedules/library/conv.h"
#include "schedules/library/elementwise.h"
#include "schedules/library/matmul.h"
#include "schedules/library/rows.h"
#include "support/names.h"

namespace kumiko::library {

const std::vector<LibraryTemplate> &templates() {
    static const std::vector<LibraryTemplate> table = {
        make_template<MatmulParameters>("matmul", "products of matrices, with a fused end", is_matmul, matmul_parameters, schedule_matmul),
        make_template<ConvParameters>("conv", "direct convolutions, dense, grouped and depthwise", is_conv, conv_parameters, schedule_conv),
        make_template<RowsParameters>("rows", "reductions, softmax and norms along the last axis", is_rows, rows_parameters, schedule_rows),
        make_template<ElementwiseParameters>("elementwise", "elementwise chains, and anything else", is_elementwise, elementwise_parameters,
                                             schedule_elementwise),
    };
    return table;
}

const LibraryTemplate *find_template(const Op &op) {
    for (const LibraryTemplate &t : templates()) {
        if (t.matches(op)) return &t;
    }
    return nullptr;
}

const LibraryTemplate &template_named(const std::string &name) {
    std::vector<std::string> names;
    for (const LibraryTemplate &t : templates()) {
        if (t.name == name) return t;
        names.push_back(t.name);
    }
    throw UserError("there is no library schedule \"" + name + "\"" + suggest(name, names));
}

} // namespace kumiko::library
