// Where fields of a struct lie, for assertions that the host's own tests compare with its structs.

#pragma once

// NVRTC has no <cstddef>; this is what its front end makes `offsetof` from.
#define OFFSET(type, field) __INTADDR__(&((type *)0)->field)
