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
    list(APPEND isas avx2)
  endif()
  set(scalar_flags "")
  set(avx2_flags -mavx2 -mfma -mf16c)
  if(QMM_BUILD_FUZZERS)
    # They run the scalar kernels, and instrumenting these as well would take many minutes.
    list(APPEND avx2_flags -fno-sanitize=all -O0)
  endif()
  foreach(isa ${isas})
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/${isa}/*.cc)
    target_sources(${target} PRIVATE ${sources})
    set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS "${${isa}_flags}")
  endforeach()
endfunction()
