// The named data sets. Each digest was published independently in several places, except those of tiny
// Shakespeare and a9a, which were computed from the files.
#include "lab/fetch/fetch.h"

#include <string.h>

#define MNIST       "https://storage.googleapis.com/cvdf-datasets/mnist/"
#define FASHION     "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/"
#define SHAKESPEARE "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/"
#define CIFAR10     "https://www.cs.toronto.edu/~kriz/"
#define LIBSVM      "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"

#define TRAIN_IMAGES "train-images-idx3-ubyte.gz"
#define TRAIN_LABELS "train-labels-idx1-ubyte.gz"
#define TEST_IMAGES  "t10k-images-idx3-ubyte.gz"
#define TEST_LABELS  "t10k-labels-idx1-ubyte.gz"

const struct lab_fetch_set lab_fetch_sets[] = {
    {"mnist",
     "70,000 handwritten digits, 28 x 28 (11 MB)",
     TRAIN_IMAGES,
     4,
     {{TRAIN_IMAGES, MNIST TRAIN_IMAGES, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
       9912422},
      {TRAIN_LABELS, MNIST TRAIN_LABELS, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
       28881},
      {TEST_IMAGES, MNIST TEST_IMAGES, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
       1648877},
      {TEST_LABELS, MNIST TEST_LABELS, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
       4542}}},
    {"fashion-mnist",
     "70,000 pieces of clothing in 10 classes, 28 x 28 (30 MB)",
     TRAIN_IMAGES,
     4,
     {{TRAIN_IMAGES, FASHION TRAIN_IMAGES, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
       26421880},
      {TRAIN_LABELS, FASHION TRAIN_LABELS, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
       29515},
      {TEST_IMAGES, FASHION TEST_IMAGES, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
       4422102},
      {TEST_LABELS, FASHION TEST_LABELS, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
       5148}}},
    {"cifar10",
     "60,000 photographs in 10 classes, 32 x 32 in colour (170 MB)",
     "cifar-10-batches-bin",
     1,
     {{"cifar-10-binary.tar.gz", CIFAR10 "cifar-10-binary.tar.gz",
       "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd", 170052171}}},
    {"tiny-shakespeare",
     "lines of Shakespeare's plays as one text (1 MB)",
     "tinyshakespeare.txt",
     1,
     {{"tinyshakespeare.txt", SHAKESPEARE "input.txt",
       "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed", 1115394}}},
    {"a9a",
     "48,842 people of a census, 123 features that are 0 or 1, LIBSVM (4 MB)",
     "a9a",
     2,
     {{"a9a", LIBSVM "a9a", "7ba53cccb27e2e525f0fb173e1f446d49856e3fb007eb43be4ec6d0f5b3335ca", 2327314},
      {"a9a.t", LIBSVM "a9a.t", "1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9",
       1164628}}},
};
const size_t lab_fetch_n_sets = sizeof lab_fetch_sets / sizeof *lab_fetch_sets;

const struct lab_fetch_set *lab_fetch_find(const char *name)
{
    for (size_t i = 0; i < lab_fetch_n_sets; i++)
        if (strcmp(lab_fetch_sets[i].name, name) == 0)
            return &lab_fetch_sets[i];
    return NULL;
}
