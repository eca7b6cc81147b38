# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Installs the libraries, the header, qmm_info, a CMake package (find_package(libqmm) gives qmm::qmm) and a pkg-config
# file. A wheel takes the shared library, into the Python package, and qmm_info.
include(CMakePackageConfigHelpers)

if(SKBUILD)
  # Under the name that programs linked with it look for, a file and not a link.
  set(name $<TARGET_SONAME_FILE_NAME:qmm_shared>)
  if(WIN32)
    set(name $<TARGET_FILE_NAME:qmm_shared>)
  endif()
  install(FILES $<TARGET_FILE:qmm_shared> DESTINATION libqmm RENAME ${name} COMPONENT python)
  install(TARGETS qmm_info RUNTIME DESTINATION ${SKBUILD_SCRIPTS_DIR} COMPONENT python)
  return()
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/libqmm)
install(TARGETS qmm_shared qmm_static EXPORT libqmm-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS qmm_info)
if(QMM_BUILD_MLIR)
  install(TARGETS qmm-opt EXPORT libqmm-targets)
  install(TARGETS qmm_mlir LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY abi/include/qmm DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT libqmm-targets NAMESPACE qmm:: DESTINATION ${package_dir})
configure_package_config_file(cmake/libqmm-config.cmake.in ${PROJECT_BINARY_DIR}/libqmm-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/libqmm-config-version.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/libqmm-config.cmake ${PROJECT_BINARY_DIR}/libqmm-config-version.cmake
  cmake/qmm_compile_model.cmake
  DESTINATION ${package_dir})
file(RELATIVE_PATH prefix_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/libqmm.pc.in ${PROJECT_BINARY_DIR}/libqmm.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/libqmm.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
