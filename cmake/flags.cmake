# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# Flags of every target of the project.
function(qmm_flags target)
  target_compile_features(${target} PUBLIC c_std_99)
  target_compile_features(${target} PRIVATE cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF C_EXTENSIONS OFF)
  # Contraction would fuse a multiplication and an addition where the contract rounds both.
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wconversion -ffp-contract=off)
  if(QMM_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(QMM_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${QMM_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC -fsanitize=${QMM_SANITIZE})
  endif()
endfunction()

# Adds every kernel of kernels/<isa>/ to a target, with the flags of its ISA.
function(qmm_add_kernels target)
  set(isas scalar)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(APPEND isas avx2 avxvnni avxvnniint8 avx512 avx512vnni amx)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64|ARM64")
    list(APPEND isas neon neon_dotprod neon_i8mm sve sve_i8mm)
  endif()
  set(scalar_flags "")
  set(avx2_flags -mavx2 -mfma -mf16c)
  set(avxvnni_flags ${avx2_flags} -mavxvnni)
  # VPDPBSSD is written as assembly: GCC knows its intrinsic from version 13 on.
  set(avxvnniint8_flags ${avxvnni_flags})
  set(avx512_flags ${avx2_flags} -mavx512f -mavx512bw -mavx512dq -mavx512vl)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    list(APPEND avx512_flags -Wno-uninitialized -Wno-maybe-uninitialized)  # of its own header's "undefined" vectors
  endif()
  set(avx512vnni_flags ${avx512_flags} -mavx512vnni)
  set(amx_flags ${avx512vnni_flags} -mamx-tile -mamx-int8)
  # Before it allocates registers, GCC moves the loads of unrolled steps together until sums spill.
  set(neon_flags $<$<CXX_COMPILER_ID:GNU>:-fno-schedule-insns>)
  set(neon_dotprod_flags -march=armv8.2-a+dotprod ${neon_flags})
  set(neon_i8mm_flags -march=armv8.2-a+i8mm ${neon_flags})
  set(sve_flags -march=armv8.2-a+sve ${neon_flags})
  set(sve_i8mm_flags -march=armv8.2-a+sve+i8mm ${neon_flags})
  foreach(isa ${isas})
    if(QMM_SANITIZE AND NOT isa STREQUAL scalar)
      # Compilers take minutes to instrument one of them. What they read and write lies between guard pages in the tests
      # (guarded_arrays_test). Fuzzers run the scalar ones.
      list(APPEND ${isa}_flags -fno-sanitize=all $<$<BOOL:${QMM_BUILD_FUZZERS}>:-O0>)
    endif()
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/${isa}/*.cc)
    target_sources(${target} PRIVATE ${sources})
    set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS "${${isa}_flags}")
  endforeach()
endfunction()
