#include "bench/peers.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>

// The location of the modules; "" if their libraries were missing at build time.
#ifndef KUMIKO_PEER_ONEDNN
#define KUMIKO_PEER_ONEDNN ""
#endif
#ifndef KUMIKO_PEER_LIBXSMM
#define KUMIKO_PEER_LIBXSMM ""
#endif
#ifndef KUMIKO_PEER_XNNPACK
#define KUMIKO_PEER_XNNPACK ""
#endif

namespace kumiko::bench {

namespace {

std::unique_ptr<Peer> load_module(const std::string &name, const std::string &file) {
    if (file.empty())
        return std::make_unique<MissingPeer>(name,
                                             "it was not found when this program was built; ./run setup fetches it");
    void *module = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!module) return std::make_unique<MissingPeer>(name, dlerror());
    auto make = reinterpret_cast<MakePeer>(dlsym(module, make_peer_symbol));
    if (!make) return std::make_unique<MissingPeer>(name, file + " is not a module of a peer");
    return std::unique_ptr<Peer>(make());
}

std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text;
}

} // namespace

size_t bytes_of(Dtype type) {
    switch (type) {
    case Dtype::F64:
        return 8;
    case Dtype::F32:
    case Dtype::S32:
        return 4;
    case Dtype::F16:
    case Dtype::BF16:
        return 2;
    case Dtype::U8:
    case Dtype::S8:
        return 1;
    }
    return 0;
}

std::vector<Peer *> peers() {
    // The libraries keep threads and cannot be unloaded, so each is a singleton created on first
    // use.
    static Peer *openblas = make_openblas().release();
    static Peer *mkl = make_mkl().release();
    static Peer *onednn = load_module("oneDNN", KUMIKO_PEER_ONEDNN).release();
    static Peer *libxsmm = load_module("LIBXSMM", KUMIKO_PEER_LIBXSMM).release();
    static Peer *xnnpack = load_module("XNNPACK", KUMIKO_PEER_XNNPACK).release();
    static Peer *onnxruntime = make_onnxruntime().release();
    return {openblas, mkl, onednn, libxsmm, xnnpack, onnxruntime};
}

Peer *find_peer(const std::string &name) {
    for (Peer *peer : peers()) {
        if (lower(peer->name()) == lower(name)) return peer;
    }
    return nullptr;
}

} // namespace kumiko::bench
