# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# qmm_compile_model(NAME <target> MLIR <file> [OUTPUT <object file>] [OPTIONS <option of clang> ...])
#
# Compiles a module of MLIR 19 that calls libqmm to an object file: qmm-opt --qmm-lower-to-llvm, mlir-translate-19,
# clang-19 -O3. Its functions with the attribute llvm.emit_c_interface can be called from C as _mlir_ciface_<name>.
#
# NAME     the target to link: it adds the object file, and libm. libqmm itself is for you to link, qmm::qmm or
#          qmm::qmm_static. $<TARGET_OBJECTS:<target>> is the object file, for a library of its own
# MLIR     dialects of MLIR, with ops of libqmm in torch.operator, stablehlo.custom_call or linalg.generic
# OUTPUT   where the object file goes; <target>.o in the current binary folder if not given
# OPTIONS  -march=x86-64-v3, for example: what surrounds the calls is compiled for any CPU of this architecture otherwise
function(qmm_compile_model)
  cmake_parse_arguments(PARSE_ARGV 0 model "" "NAME;MLIR;OUTPUT" "OPTIONS")
  if(NOT model_NAME OR NOT model_MLIR OR model_UNPARSED_ARGUMENTS OR model_KEYWORDS_MISSING_VALUES)
    message(FATAL_ERROR "qmm_compile_model(NAME <target> MLIR <file> [OUTPUT <object file>] [OPTIONS <option> ...]), "
      "not (${ARGV})")
  endif()
  if(NOT TARGET qmm::qmm-opt)
    message(FATAL_ERROR "qmm_compile_model needs qmm-opt: this libqmm was built without QMM_BUILD_MLIR")
  endif()
  find_program(QMM_MLIR_TRANSLATE NAMES mlir-translate-19 REQUIRED)
  find_program(QMM_CLANG NAMES clang-19 REQUIRED)
  if(NOT model_OUTPUT)
    set(model_OUTPUT ${model_NAME}.o)
  endif()
  cmake_path(ABSOLUTE_PATH model_MLIR BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  cmake_path(ABSOLUTE_PATH model_OUTPUT BASE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})

  add_custom_command(OUTPUT ${model_OUTPUT}
    COMMAND qmm::qmm-opt --allow-unregistered-dialect --qmm-lower-to-llvm ${model_MLIR} -o ${model_OUTPUT}.mlir
    COMMAND ${QMM_MLIR_TRANSLATE} --mlir-to-llvmir ${model_OUTPUT}.mlir -o ${model_OUTPUT}.ll
    COMMAND ${QMM_CLANG} -Wno-override-module -O3 -fPIC ${model_OPTIONS} -c ${model_OUTPUT}.ll -o ${model_OUTPUT}
    DEPENDS ${model_MLIR} qmm::qmm-opt
    COMMENT "Compiling ${model_MLIR}"
    VERBATIM)
  add_custom_target(${model_NAME}-object DEPENDS ${model_OUTPUT})
  add_library(${model_NAME} OBJECT IMPORTED GLOBAL)
  set_target_properties(${model_NAME} PROPERTIES
    IMPORTED_OBJECTS ${model_OUTPUT} INTERFACE_LINK_LIBRARIES "$<$<PLATFORM_ID:Linux>:m>")
  add_dependencies(${model_NAME} ${model_NAME}-object)
endfunction()
