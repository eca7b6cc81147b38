# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Installs a build to a prefix of its own, moves it, and uses it there: by find_package and by pkg-config.
#   cmake -D build=<dir> -D config=<configuration> -D generator=<generator> -D compiler=<C compiler>
#     -D mlir=<whether qmm-opt was built> -P test.cmake
cmake_minimum_required(VERSION 3.25)
set(dir ${build}/tests/install-test)
set(prefix ${dir}/moved)
file(REMOVE_RECURSE ${dir})
function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run(${CMAKE_COMMAND} --install ${build} --config ${config} --prefix ${dir}/first)
file(RENAME ${dir}/first ${prefix})

run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${dir}/consumer -G ${generator}
  -D CMAKE_C_COMPILER=${compiler} -D CMAKE_PREFIX_PATH=${prefix})
run(${CMAKE_COMMAND} --build ${dir}/consumer)
run(${dir}/consumer/consumer_qmm)
run(${dir}/consumer/consumer_qmm_static)
run(${prefix}/bin/qmm_info)

find_program(pkg_config pkg-config REQUIRED)
file(GLOB_RECURSE pc ${prefix}/libqmm.pc)
cmake_path(GET pc PARENT_PATH pc_dir)
set(ENV{PKG_CONFIG_PATH} ${pc_dir})
# Compiles the consumer with what pkg-config says.
function(compile_by_pkg_config name pkg_config_option)
  execute_process(COMMAND ${pkg_config} ${pkg_config_option} --cflags --libs libqmm
    OUTPUT_VARIABLE flags COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  run(${compiler} -std=c99 ${CMAKE_CURRENT_LIST_DIR}/../abi_c99.c -o ${dir}/${name} ${ARGN} ${flags} -lm)
endfunction()
execute_process(COMMAND ${pkg_config} --variable=libdir libqmm OUTPUT_VARIABLE libdir
  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
compile_by_pkg_config(consumer_pc "")
set(ENV{LD_LIBRARY_PATH} ${libdir})
run(${dir}/consumer_pc)
compile_by_pkg_config(consumer_pc_static --static -static)
run(${dir}/consumer_pc_static)

# Two models in one program. The example of examples/mlir, with the compiler of models that was installed.
if(mlir)
  run(${dir}/consumer/consumer_models)
  run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/../../examples/mlir -B ${dir}/mlp -G ${generator}
    -D CMAKE_C_COMPILER=${compiler} -D CMAKE_C_FLAGS=-Werror\ -Wall\ -Wextra -D CMAKE_PREFIX_PATH=${prefix})
  run(${CMAKE_COMMAND} --build ${dir}/mlp)
  # Quantized results have the same bits everywhere.
  foreach(program mlp_static mlp_dlopen)
    execute_process(COMMAND ${dir}/mlp/${program} OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
    if(NOT printed STREQUAL "[3, 32]: -20.9982 -39.422 -0.638827 ...\n")
      message(FATAL_ERROR "${program} printed ${printed}")
    endif()
  endforeach()
endif()
