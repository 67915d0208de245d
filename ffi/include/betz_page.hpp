// betz_page.hpp: betz_page.h for C++17, as betz.hpp wraps betz.h: the page of a running session.
//
//   betz::monitor monitor(model);
//   monitor.attach(session);
//   std::puts(monitor.url());        // to open in a browser, with its token
#ifndef BETZ_PAGE_HPP
#define BETZ_PAGE_HPP

#include "betz.hpp"
#include "betz_page.h"

namespace betz {

namespace detail {
struct page_deleter {
    void operator()(betz_monitor *monitor) const noexcept { betz_monitor_close(monitor); }
};
} // namespace detail

// betz_monitor_config with its defaults.
struct monitor_config : betz_monitor_config {
    monitor_config() noexcept : betz_monitor_config() {
        // Cannot fail: the struct has the right size.
        static_cast<void>(betz_monitor_config_default(this, sizeof(betz_monitor_config)) == BETZ_OK);
    }
};

// The page of a session that runs `model`. Can be moved, but not copied.
class monitor {
public:
    // An empty object, for try_open.
    monitor() noexcept = default;

    [[nodiscard]] static betz_status try_open(const model &model, const betz_monitor_config &config,
                                              monitor &out) noexcept {
        betz_monitor *handle = nullptr;
        const betz_status status = betz_monitor_open(model.get(), &config, &handle);
        if (status == BETZ_OK) out.handle_.reset(handle);
        return status;
    }

    // Shows the session from its next step on; session and page may be destroyed in any order.
    [[nodiscard]] betz_status try_attach(session &session, std::int64_t first_tick = 0) noexcept {
        return betz_monitor_attach(get(), session.get(), first_tick);
    }

    // Address to open in a browser, with its token; nullptr for an empty object.
    const char *url() const noexcept { return betz_monitor_url(get()); }
    // Number of pages that watch now.
    std::size_t viewers() const noexcept { return betz_monitor_viewers(get()); }

#if BETZ_EXCEPTIONS
    explicit monitor(const model &model, const betz_monitor_config &config = monitor_config()) {
        check(try_open(model, config, *this));
    }

    void attach(session &session, std::int64_t first_tick = 0) { check(try_attach(session, first_tick)); }
#endif

    betz_monitor *get() const noexcept { return handle_.get(); }

private:
    std::unique_ptr<betz_monitor, detail::page_deleter> handle_;
};

} // namespace betz

#endif
