# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# A toolchain file that compiles for macOS and Windows on Linux, and does not link: clang-19, with the systems' headers and
# libc++ of the PyPI package ziglang. It shows that the sources fit those headers.
#   QMM_TARGET  arm64-apple-macos13, x86_64-apple-macos13, x86_64-w64-windows-gnu or aarch64-w64-windows-gnu
#   QMM_PYTHON  the Python that has ziglang
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES QMM_TARGET QMM_PYTHON)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_C_COMPILER_ID_TEST_FLAGS_FIRST -c)
set(CMAKE_CXX_COMPILER_ID_TEST_FLAGS_FIRST -c)

execute_process(COMMAND ${QMM_PYTHON} -c "import pathlib, ziglang; print(pathlib.Path(ziglang.__file__).parent / 'lib')"
  OUTPUT_VARIABLE zig OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCH "^[^-]+" CMAKE_SYSTEM_PROCESSOR ${QMM_TARGET})
set(folders libcxx/include libcxxabi/include)
if(QMM_TARGET MATCHES macos)
  set(CMAKE_SYSTEM_NAME Darwin)
  set(c_folders libc/include/any-macos-any)
else()
  set(CMAKE_SYSTEM_NAME Windows)
  set(c_folders libc/include/any-windows-any)
endif()
list(TRANSFORM folders PREPEND "-isystem ${zig}/")
# After the compiler's own, as in any system.
list(TRANSFORM c_folders PREPEND "-idirafter ${zig}/")
list(JOIN folders " " cxx_includes)
list(JOIN c_folders " " c_includes)

set(CMAKE_C_COMPILER clang-19)
set(CMAKE_CXX_COMPILER clang++-19)
set(CMAKE_C_COMPILER_TARGET ${QMM_TARGET})
set(CMAKE_CXX_COMPILER_TARGET ${QMM_TARGET})
set(CMAKE_C_FLAGS_INIT "-nostdlibinc ${c_includes}")
# What zig gives its libc++, which has no __config_site.
set(CMAKE_CXX_FLAGS_INIT "-nostdinc++ -nostdlibinc ${cxx_includes} ${c_includes} -D_LIBCPP_ABI_VERSION=1 \
-D_LIBCPP_ABI_NAMESPACE=__1 -D_LIBCPP_HAS_NO_VENDOR_AVAILABILITY_ANNOTATIONS -D_LIBCPP_PSTL_BACKEND_SERIAL \
-D_LIBCPP_HARDENING_MODE=_LIBCPP_HARDENING_MODE_NONE -D_LIBCPP_HARDENING_MODE_DEFAULT=_LIBCPP_HARDENING_MODE_NONE")
