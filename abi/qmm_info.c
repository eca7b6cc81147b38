/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/*
 * qmm_info: which kernels libqmm runs on this machine, and why no better ones. It knows qmm.h alone.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qmm/qmm.h"

static const char kUsage[] =
    "usage: qmm_info [--json]\n"
    "Tells the version of libqmm, the CPU, and for each format of weights and activations the kernel that runs and "
    "what\n"
    "keeps the next better one from use. QMM_MAX_ISA caps the choice. --json tells every kernel, for programs.\n";

enum { ANY_M = 0 }; /* for an upper bound: there is none */

/* A range of M that has one choice. */
typedef struct choice {
  int64_t min_m, max_m;
  const char* kernel;
  const qmm_kernel_info* next; /* what would run if there were what the plainest of the better ones needs; or NULL */
} choice;

static void check(qmm_status status) {
  if (status == QMM_OK) return;
  fprintf(stderr, "qmm_info: %s\n", qmm_last_error());
  exit(1);
}

static const char* lhs_name(int32_t lhs_kind) { return lhs_kind == QMM_LHS_F32 ? "f32" : "s8"; }

static int fits(const qmm_kernel_info* kernel, int32_t lhs_kind, int32_t bits, int64_t m) {
  return kernel->lhs_kind == lhs_kind && kernel->bits == bits && kernel->min_m <= m;
}

static choice choose(const qmm_kernel_info* kernels, int64_t count, int32_t lhs_kind, int32_t bits, int64_t m) {
  choice found = {m, ANY_M, NULL, NULL};
  uint64_t features;
  qmm_rhs_desc desc;
  int64_t i;
  memset(&desc, 0, sizeof desc);
  desc.struct_size = sizeof desc;
  desc.n = desc.k = desc.group = 16;
  desc.bits = bits;
  check(qmm_kernel_name(lhs_kind, &desc, m, &found.kernel));
  for (i = 0; i < count; ++i) {
    if (!fits(&kernels[i], lhs_kind, bits, m)) continue;
    if (strcmp(kernels[i].name, found.kernel) == 0)
      found.next = NULL;
    else if (found.next == NULL)
      found.next = &kernels[i];
  }
  if (found.next == NULL) return found;
  features = qmm_cpu_features() | found.next->need;
  for (i = found.next - kernels; i < count; ++i)
    if (fits(&kernels[i], lhs_kind, bits, m) && (kernels[i].need & ~features) == 0) found.next = &kernels[i];
  return found;
}

/* Fills `choices`, which has room for `count`, with those for ascending ranges of M; returns how many there are. */
static int64_t choose_all(const qmm_kernel_info* kernels, int64_t count, int32_t lhs_kind, int32_t bits,
                          choice* choices) {
  int64_t found = 0, m = 1, next_m, i;
  for (; m != ANY_M; m = next_m) {
    const choice now = choose(kernels, count, lhs_kind, bits, m);
    next_m = ANY_M;
    for (i = 0; i < count; ++i)
      if (kernels[i].lhs_kind == lhs_kind && kernels[i].bits == bits && kernels[i].min_m > m &&
          (next_m == ANY_M || kernels[i].min_m < next_m))
        next_m = kernels[i].min_m;
    if (found == 0 || choices[found - 1].kernel != now.kernel || choices[found - 1].next != now.next)
      choices[found++] = now;
    choices[found - 1].max_m = next_m == ANY_M ? ANY_M : next_m - 1;
  }
  return found;
}

/* Prints the names of features, each between `quote`s. */
static void print_features(uint64_t features, const char* quote, const char* separator) {
  uint64_t feature;
  const char *name, *before = "";
  for (feature = 1; (name = qmm_cpu_feature_name(feature)) != NULL; feature <<= 1)
    if ((features & feature) != 0) {
      printf("%s%s%s%s", before, quote, name, quote);
      before = separator;
    }
}

static void print_line(const char* what, uint64_t features, const char* remark) {
  printf("  %-9s", what);
  print_features(features, "", " ");
  printf("%s%s\n", features == 0 ? "none" : "", remark);
}

static void print_text(const qmm_cpu_info* cpu, const qmm_kernel_info* kernels, int64_t count, choice* choices) {
  int32_t bits, lhs_kind;
  int64_t found, i;
  printf("libqmm %s, ABI version %" PRId32 "\n", qmm_version(), qmm_abi_version());
  printf("CPU: %s; %" PRId64 " for this process\n", cpu->name[0] == '\0' ? "unknown" : cpu->name, qmm_max_threads());
  print_line("has", cpu->has, "");
  print_line("enabled", cpu->enabled, "");
  print_line("usable", cpu->usable, "");
  printf("QMM_MAX_ISA: %s\n", cpu->max_isa[0] == '\0' ? "not set" : cpu->max_isa);
  for (bits = 4; bits <= 8; bits += 4)
    for (lhs_kind = QMM_LHS_F32; lhs_kind <= QMM_LHS_S8; ++lhs_kind) {
      printf("\n%" PRId32 "-bit weights, %s activations\n", bits, lhs_name(lhs_kind));
      found = choose_all(kernels, count, lhs_kind, bits, choices);
      for (i = 0; i < found; ++i) {
        char range[64];
        if (choices[i].max_m == ANY_M)
          snprintf(range, sizeof range, "M >= %" PRId64, choices[i].min_m);
        else if (choices[i].max_m == choices[i].min_m)
          snprintf(range, sizeof range, "M = %" PRId64, choices[i].min_m);
        else
          snprintf(range, sizeof range, "M = %" PRId64 " .. %" PRId64, choices[i].min_m, choices[i].max_m);
        printf("  %-13s %s\n", range, choices[i].kernel);
        if (choices[i].next != NULL)
          printf("  %-13s not %s: %s\n", "", choices[i].next->name, choices[i].next->why_not);
      }
    }
}

static void print_json_string(const char* text) {
  putchar('"');
  for (; *text != '\0'; ++text) {
    const unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\')
      printf("\\%c", c);
    else if (c < 0x20 || c >= 0x7f) /* a CPU may call itself anything */
      printf("\\u%04x", c);
    else
      putchar(c);
  }
  putchar('"');
}

static void print_json_features(const char* key, uint64_t features) {
  printf("\"%s\": [", key);
  print_features(features, "\"", ", ");
  printf("]");
}

static void print_json_format(int32_t lhs_kind, int32_t bits) {
  printf("\"lhs\": \"%s\", \"bits\": %" PRId32, lhs_name(lhs_kind), bits);
}

static void print_json(const qmm_cpu_info* cpu, const qmm_kernel_info* kernels, int64_t count, choice* choices) {
  int32_t bits, lhs_kind;
  int64_t found, i;
  const char* before = "";
  printf("{\n  \"version\": \"%s\",\n  \"abi_version\": %" PRId32 ",\n  \"cpu\": {\"name\": ", qmm_version(),
         qmm_abi_version());
  print_json_string(cpu->name);
  printf(", ");
  print_json_features("has", cpu->has);
  printf(", ");
  print_json_features("enabled", cpu->enabled);
  printf(", ");
  print_json_features("usable", cpu->usable);
  printf("},\n  \"max_isa\": ");
  print_json_string(cpu->max_isa);
  printf(",\n  \"max_threads\": %" PRId64 ",\n  \"kernels\": [", qmm_max_threads());
  for (i = 0; i < count; ++i) {
    printf("%s\n    {\"name\": \"%s\", ", i == 0 ? "" : ",", kernels[i].name);
    print_json_format(kernels[i].lhs_kind, kernels[i].bits);
    printf(", \"min_m\": %" PRId64 ", ", kernels[i].min_m);
    print_json_features("need", kernels[i].need);
    printf(", \"why_not\": \"%s\"}", kernels[i].why_not);
  }
  printf("\n  ],\n  \"chosen\": [");
  for (bits = 4; bits <= 8; bits += 4)
    for (lhs_kind = QMM_LHS_F32; lhs_kind <= QMM_LHS_S8; ++lhs_kind) {
      found = choose_all(kernels, count, lhs_kind, bits, choices);
      for (i = 0; i < found; ++i) {
        printf("%s\n    {", before);
        before = ",";
        print_json_format(lhs_kind, bits);
        printf(", \"min_m\": %" PRId64 ", \"max_m\": ", choices[i].min_m);
        choices[i].max_m == ANY_M ? printf("null") : printf("%" PRId64, choices[i].max_m);
        printf(", \"kernel\": \"%s\", \"next\": ", choices[i].kernel);
        if (choices[i].next == NULL)
          printf("null}");
        else
          printf("{\"name\": \"%s\", \"why_not\": \"%s\"}}", choices[i].next->name, choices[i].next->why_not);
      }
    }
  printf("\n  ]\n}\n");
}

int main(int argc, char** argv) {
  int json = 0;
  int64_t count = qmm_num_kernels(), i;
  qmm_cpu_info cpu;
  qmm_kernel_info* kernels;
  choice* choices;
  if (argc == 2 && strcmp(argv[1], "--help") == 0) {
    fputs(kUsage, stdout);
    return 0;
  }
  json = argc == 2 && strcmp(argv[1], "--json") == 0;
  if (argc > 2 || (argc == 2 && !json)) {
    fprintf(stderr, "qmm_info: it takes one option at most, --json or --help, not \"%s\"\n%s", argv[argc - 1], kUsage);
    return 2;
  }

  memset(&cpu, 0, sizeof cpu);
  cpu.struct_size = sizeof cpu;
  check(qmm_describe_cpu(&cpu));
  kernels = calloc((size_t)count, sizeof *kernels);
  choices = calloc((size_t)count, sizeof *choices);
  if (kernels == NULL || choices == NULL) {
    fprintf(stderr, "qmm_info: out of memory\n");
    return 1;
  }
  for (i = 0; i < count; ++i) {
    kernels[i].struct_size = sizeof kernels[i];
    check(qmm_describe_kernel(i, &kernels[i]));
  }
  (json ? print_json : print_text)(&cpu, kernels, count, choices);
  free(choices);
  free(kernels);
  return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
