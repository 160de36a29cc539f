#include "ops/pool.h"
#include "ops/registry_parts.h"
#include "ops/resize.h"
#include "ops/rows.h"

namespace kumiko::ops {

namespace {

// The parameters after a convolution's type: other types, and requantisation.
std::vector<Parameter> conv_types() {
    return {type("type of X, and of other tensors by default"), type_or_same("w_type", "type of W"),
            type_or_same("output", "type of Y; same: of X, or i32"),
            flag("requantise", "Y is i8 or u8: the sum and an i32 bias, times a scale for each channel, rounded"),
            integer("zero_point", 0, "added after rounding")};
}

template<typename Options>
void read_conv_types(const Arguments &a, Options &o) {
    o.w_type = a.type_or_same("w_type");
    o.output = a.type_or_same("output");
    o.requantise = a.flag("requantise"), o.zero_point = a.integer("zero_point");
}

std::vector<Parameter> with(std::vector<Parameter> first, const std::vector<Parameter> &more) {
    first.insert(first.end(), more.begin(), more.end());
    return first;
}

std::vector<Parameter> conv_parameters(bool depthwise) {
    std::vector<Parameter> p = {size("n", "images", 1), size("c", "input channels"), size("h", "height of the input"),
                                size("w", "width of the input")};
    if (!depthwise) p.push_back(size("o", "output channels"));
    for (Parameter &more : std::vector<Parameter>{
             integer("kh", 3, "height of the weights"), integer("kw", 3, "width of the weights"),
             integer("stride", 1, "step, both ways"), integer("padding", 0, "zeros around the input, all sides"),
             integer("dilation", 1, "distance between weights")}) {
        p.push_back(more);
    }
    if (!depthwise) p.push_back(integer("groups", 1, "groups of channels"));
    p.push_back(layout());
    p.push_back(flag("bias", "add a value to each output channel"));
    p.push_back(flag("residual", "add a tensor shaped like the output"));
    p.push_back(activation());
    p = with(p, conv_types());
    return with(p, {choice("pool", "pooling of the result", {"", "max", "average"}),
                    integer("pool_window", 2, "rows and columns of a pooling window"),
                    integer("pool_stride", 2, "stride of pooling windows, in both directions"),
                    integer("pool_padding", 0, "rows and columns around the result, all sides")});
}

Op build_conv(const Arguments &a, bool depthwise) {
    Conv2dOptions o;
    o.layout = layout_of(a);
    o.stride(a.integer("stride")).padding(a.integer("padding")).dilation(a.integer("dilation"));
    o.bias = a.flag("bias");
    o.residual = a.flag("residual");
    o.activation = a.text("activation");
    read_conv_types(a, o);
    o.pool = a.text("pool");
    o.pool_window = a.integer("pool_window"), o.pool_stride = a.integer("pool_stride");
    o.pool_padding = a.integer("pool_padding");
    if (depthwise)
        return depthwise_conv2d(a.type("type"), a.size("n"), a.size("c"), a.size("h"), a.size("w"), a.integer("kh"),
                                a.integer("kw"), o);
    o.groups = a.integer("groups");
    return conv2d(a.type("type"), a.size("n"), a.size("c"), a.size("h"), a.size("w"), a.size("o"), a.integer("kh"),
                  a.integer("kw"), o);
}

std::vector<Parameter> pool_parameters() {
    return {size("n", "images", 1),
            size("c", "channels"),
            size("h", "height of the input"),
            size("w", "width of the input"),
            integer("kh", 2, "height of the window"),
            integer("kw", 2, "width of the window"),
            integer("stride", 2, "step, both ways"),
            integer("padding", 0, "rows and columns around the input, all sides"),
            layout(),
            type()};
}

Op build_pool(const Arguments &a, bool average) {
    PoolOptions o;
    o.layout = layout_of(a);
    o.stride = a.integer("stride");
    o.padding = a.integer("padding");
    return (average ? average_pool : max_pool)(a.type("type"), a.size("n"), a.size("c"), a.size("h"), a.size("w"),
                                               a.integer("kh"), a.integer("kw"), o);
}

// Parameters of conv1d and conv3d after their sizes.
std::vector<Parameter> conv_options(const std::vector<std::string> &layouts) {
    return with({integers("stride", "step; one number, or one for each axis", {1}),
                 integers("padding", "zeros around the input; one number, or one for each axis", {0}),
                 integers("dilation", "distance between weights; one number, or one for each axis", {1}),
                 integer("groups", 1, "groups of channels"), choice("layout", "order of the axes of images", layouts),
                 flag("bias", "add a value to each output channel"),
                 flag("residual", "add a tensor shaped like the output"), activation()},
                conv_types());
}

ConvOptions conv_options_of(const Arguments &a) {
    ConvOptions o;
    o.layout = a.text("layout").ends_with("c") ? ImageLayout::NHWC : ImageLayout::NCHW;
    o.stride = a.integers("stride");
    o.padding = a.integers("padding");
    o.dilation = a.integers("dilation");
    o.groups = a.integer("groups");
    o.bias = a.flag("bias");
    o.residual = a.flag("residual");
    o.activation = a.text("activation");
    read_conv_types(a, o);
    return o;
}

void add_other_convolutions(Table &table) {
    table.add("winograd_conv2d", "a convolution with 3 x 3 weights by Winograd's algorithm, which rounds differently",
              {size("n", "images", 1), size("c", "input channels"), size("h", "height of the input"),
               size("w", "width of the input"), size("o", "output channels"),
               integer("tile", 4, "results of a tile, both ways: 2 or 4"),
               integer("stride", 1, "step of the window, both ways: 1 or 2"),
               integer("padding", 0, "zeros around the input, all sides"),
               flag("bias", "add a value to each output channel"),
               flag("residual", "add a tensor shaped like the output"), activation(), layout(), type()},
              [](const Arguments &a) {
                  Conv2dOptions o;
                  o.stride(a.integer("stride")).padding(a.integer("padding"));
                  o.layout = layout_of(a);
                  o.bias = a.flag("bias"), o.residual = a.flag("residual");
                  o.activation = a.text("activation");
                  return winograd_conv2d(a.type("type"), a.size("n"), a.size("c"), a.size("h"), a.size("w"),
                                         a.size("o"), a.integer("tile"), o);
              });
    table.add("conv1d", "a convolution over sequences",
              with({size("n", "sequences", 1), size("c", "input channels"), size("w", "width of the input"),
                    size("o", "output channels"), integer("kw", 3, "width of the weights")},
                   conv_options({"ncw", "nwc"})),
              [](const Arguments &a) {
                  return conv1d(a.type("type"), a.size("n"), a.size("c"), a.size("w"), a.size("o"), a.integer("kw"),
                                conv_options_of(a));
              });
    table.add("conv3d", "a convolution over volumes",
              with({size("n", "volumes", 1), size("c", "input channels"), size("d", "depth of the input"),
                    size("h", "height of the input"), size("w", "width of the input"), size("o", "output channels"),
                    integer("kd", 3, "depth of the weights"), integer("kh", 3, "height of the weights"),
                    integer("kw", 3, "width of the weights")},
                   conv_options({"ncdhw", "ndhwc"})),
              [](const Arguments &a) {
                  return conv3d(a.type("type"), a.size("n"), a.size("c"), a.size("d"), a.size("h"), a.size("w"),
                                a.size("o"), a.integer("kd"), a.integer("kh"), a.integer("kw"), conv_options_of(a));
              });
    table.add("conv_transpose2d", "each pixel adds its weights to a window of the result, which moves by the stride",
              {size("n", "images", 1), size("c", "input channels"), size("h", "height of the input"),
               size("w", "width of the input"), size("o", "output channels"), integer("kh", 3, "height of the weights"),
               integer("kw", 3, "width of the weights"), integer("stride", 1, "step of the windows, both ways"),
               integer("padding", 0, "rows and columns cut off the result, all sides"),
               integer("output_padding", 0, "more rows and columns of the result, at the end"), layout(),
               flag("bias", "add a value to each output channel"), activation(), type()},
              [](const Arguments &a) {
                  ConvTransposeOptions o;
                  o.layout = layout_of(a);
                  o.stride_y = o.stride_x = a.integer("stride");
                  o.padding_y = o.padding_x = a.integer("padding");
                  o.output_padding_y = o.output_padding_x = a.integer("output_padding");
                  o.bias = a.flag("bias");
                  o.activation = a.text("activation");
                  return conv_transpose2d(a.type("type"), a.size("n"), a.size("c"), a.size("h"), a.size("w"),
                                          a.size("o"), a.integer("kh"), a.integer("kw"), o);
              });
}

Op build_resize(const Arguments &a, bool nearest) {
    ResizeOptions o{layout_of(a)};
    const std::string how = a.text("coordinates");
    o.coordinates = how == "half_pixel"      ? Coordinates::HalfPixel
                    : how == "align_corners" ? Coordinates::AlignCorners
                                             : Coordinates::Asymmetric;
    return (nearest ? resize_nearest : resize_bilinear)(a.type("type"), a.size("n"), a.size("c"), a.size("h"),
                                                        a.size("w"), a.size("oh"), a.size("ow"), o);
}

void add_resizing(Table &table) {
    const std::vector<Parameter> parameters = {size("n", "images", 1),
                                               size("c", "channels"),
                                               size("h", "height of the input"),
                                               size("w", "width of the input"),
                                               size("oh", "height of the result"),
                                               size("ow", "width of the result"),
                                               choice("coordinates", "mapping of pixels of the result to the input",
                                                      {"half_pixel", "align_corners", "asymmetric"}),
                                               layout(),
                                               type()};
    table.add("resize_nearest", "images of another size, from the nearest pixels", parameters,
              [](const Arguments &a) { return build_resize(a, true); });
    table.add("resize_bilinear", "images of another size, from the four pixels around", parameters,
              [](const Arguments &a) { return build_resize(a, false); });
}

} // namespace

void add_images(Table &table) {
    const Parameter eps = real("eps", 1e-5, "added to the variance");
    table.add("conv2d", "a convolution over images", conv_parameters(false),
              [](const Arguments &a) { return build_conv(a, false); });
    table.add("depthwise_conv2d", "a convolution of each channel", conv_parameters(true),
              [](const Arguments &a) { return build_conv(a, true); });
    add_other_convolutions(table);
    table.add(
        "batch_norm", "each channel of images scaled and shifted by its given mean and variance",
        {size("n", "images", 1), size("c", "channels"), size("h", "height"), size("w", "width"), layout(), eps, type()},
        [](const Arguments &a) {
            return batch_norm(a.type("type"), a.size("n"), a.size("c"), a.size("h"), a.size("w"), a.real("eps"),
                              a.text("layout") == "nhwc");
        });
    table.add("group_norm", "groups of channels of images to mean 0 and variance 1, then scaled and shifted",
              {size("n", "images", 1), size("c", "channels"), size("h", "height"), size("w", "width"),
               integer("groups", 1, "groups of channels"), layout(), eps, type()},
              [](const Arguments &a) {
                  return group_norm(a.type("type"), a.size("n"), a.size("c"), a.size("h"), a.size("w"),
                                    a.integer("groups"), a.real("eps"), a.text("layout") == "nhwc");
              });
    table.add("max_pool", "the greatest of each window of images", pool_parameters(),
              [](const Arguments &a) { return build_pool(a, false); });
    table.add("average_pool", "the mean of each window of images, where padding counts as zeros", pool_parameters(),
              [](const Arguments &a) { return build_pool(a, true); });
    add_resizing(table);
}

} // namespace kumiko::ops
