// Random layouts against brute force: inverse, text, views, canonical form, contents.
#include "targets/chip/layout/algebra.h"
#include "tests/property/random_layout.h"

#include <doctest/doctest.h>

#include <fmt/format.h>

using namespace kumiko;
using namespace kumiko::chip;

namespace {

bool next_index(std::vector<int64_t> &index, const std::vector<int64_t> &extents) {
    for (size_t k = extents.size(); k-- > 0;) {
        if (++index[k] < extents[k]) return true;
        index[k] = 0;
    }
    return false;
}

} // namespace

TEST_CASE("random layouts") {
    const sim::Config configs[] = {sim::Config::load("small"), sim::Config::load("medium")};
    int made = 0, composed = 0, cut = 0;
    for (uint64_t seed = 0; seed < 1500; seed++) {
        Random r(seed);
        const sim::Config &c = configs[seed % 8 == 7];
        const Memory memory = Memory(r.below(memory_count));
        const ElementType type = ElementType(r.below(4));
        const std::vector<int64_t> extents = random_extents(r);
        RandomLayout random{r, c};
        const auto layout = random.make(type, extents, memory, 60);
        if (!layout) continue;
        made++;
        const Placement p{memory, *layout, 0};
        const std::string about = fmt::format("seed {}: {}", seed, p.to_string());
        CAPTURE(about);
        REQUIRE_NOTHROW(check(p, c));
        REQUIRE(Layout::parse(layout->to_string(), type) == *layout);
        REQUIRE(canonical(canonical(*layout)) == canonical(*layout));
        REQUIRE(equal(*layout, canonical(*layout), memory, c));

        // Every element's places hold it, and no other place holds anything.
        const Contents all = contents(p, c);
        std::vector<int64_t> index(extents.size());
        int64_t number = 0, places = 0, held = 0;
        do {
            for (const Place &place : places_of(p, index, c)) {
                REQUIRE(element_at(p, place, c).value() == index);
                REQUIRE(all.at(unit_of(place, memory, c), place.address)[place.lane] == number);
                REQUIRE(place_of(unit_of(place, memory, c), memory, c).to_string(memory) ==
                        Place{place.group, place.l2b, place.l1b, place.mab, place.pe}.to_string(memory));
                places++;
            }
            number++;
        } while (next_index(index, extents));
        for (int u = 0; u < all.units(); u++)
            for (int64_t a = 0; a < all.words(); a++)
                for (int l = 0; l < all.lanes(); l++) {
                    if (all.at(u, a)[l] >= 0)
                        held++;
                    else if (held % 7 == 0) { // a sample of the padding
                        Place place = place_of(u, memory, c);
                        place.address = a, place.lane = l;
                        REQUIRE(!element_at(p, place, c));
                    }
                }
        REQUIRE(held == places);

        // A view, by digits and by brute force.
        View view(size_t(r.between(1, 3)));
        std::vector<int64_t> step(extents.size(), 1);
        for (size_t k = view.size(); k-- > 0;) {
            for (int n = int(r.between(0, 2)); n > 0; n--) {
                const size_t a = size_t(r.below(extents.size()));
                const int64_t room = (extents[a] - 1) / step[a] + 1;
                if (room < 2) continue;
                const int64_t size = r.between(1, room);
                view[k].insert(view[k].begin(), {size, int(a), step[a]});
                step[a] *= size;
            }
        }
        Layout seen;
        try {
            seen = compose(*layout, view);
        } catch (const Unsupported &) {
            cut++;
            continue;
        } catch (const UserError &) { // two digits of one axis reach beyond it
            cut++;
            continue;
        }
        composed++;
        std::vector<int64_t> sizes = seen.extents(), at(sizes.size());
        do {
            std::vector<int64_t> original(extents.size());
            for (size_t k = 0; k < view.size(); k++) {
                int64_t rest = at[k];
                for (size_t f = view[k].size(); f-- > 0;) {
                    original[size_t(view[k][f].axis)] += rest % view[k][f].size * view[k][f].step;
                    rest /= view[k][f].size;
                }
            }
            REQUIRE(places_of({memory, seen, 0}, at, c) == places_of(p, original, c));
        } while (next_index(at, sizes));
    }
    MESSAGE(made << " layouts, " << composed << " views, " << cut << " that cut through factors");
    CHECK(made > 1000);
    CHECK(composed > 300);
}
