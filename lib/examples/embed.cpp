// The same in C++: the destructor closes the node, and errors are exceptions. embed_cpp DIRECTORY LISTEN
// ROUNDS [PEER]
#include <p2pml.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

class Node {
public:
    Node(std::vector<std::string> settings, std::size_t parameters) : shape{parameters} {
        std::vector<const char *> texts;
        for (const auto &setting : settings) texts.push_back(setting.c_str());
        texts.push_back(nullptr);
        const p2pml_tensor tensor = {"weight", shape, 1};
        p2pml_options options = {};
        options.size = sizeof options;
        options.settings = texts.data();
        options.tensors = &tensor;
        options.n_tensors = 1;
        char why[512];
        node.reset(p2pml_open(&options, why, sizeof why));
        if (!node) throw std::invalid_argument(why);
    }
    float *vector(int which) { return p2pml_vector(node.get(), which, nullptr); }
    p2pml_round start() { return check(p2pml_start(node.get(), -1, &round)); }
    p2pml_round exchange(std::uint64_t steps, double step_scale) {
        check(p2pml_round_begin(node.get(), steps, step_scale, NAN));
        return check(p2pml_round_end(node.get(), -1, &round));
    }
    void leave() { p2pml_leave(node.get(), -1); }

private:
    struct Closer {
        void operator()(p2pml_node *n) const { p2pml_close(n); }
    };
    const p2pml_round &check(int code) {
        if (code != P2PML_OK) throw std::runtime_error(p2pml_reason(node.get()));
        return round;
    }
    std::size_t shape[1];
    std::unique_ptr<p2pml_node, Closer> node;
    p2pml_round round = {};
};

int main(int argc, char **argv) try {
    if (argc < 4) throw std::invalid_argument("usage: embed_cpp DIRECTORY LISTEN ROUNDS [PEER]");
    const std::size_t parameters = 64;
    const float rate = 0.05f;
    Node node({"node.dir=" + std::string(argv[1]), "node.listen=" + std::string(argv[2]), "node.http=",
               "average.local_steps=8", "peers=" + std::string(argc > 4 ? argv[4] : "")},
              parameters);
    auto round = node.start();
    float *w = node.vector(P2PML_MODEL), *correction = node.vector(P2PML_CORRECTION);
    for (int i = 0; i < std::atoi(argv[3]); i++) {
        for (std::uint64_t step = 0; step < round.steps; step++)
            for (std::size_t k = 0; k < parameters; k++)
                w[k] += rate * (std::sin(static_cast<float>(k)) - w[k] + correction[k]);
        round = node.exchange(round.steps, rate * static_cast<double>(round.steps));
    }
    node.leave();
    std::cout << "weight 1: " << w[1] << ", expected about 0.84\n";
} catch (const std::exception &error) {
    std::cerr << error.what() << '\n';
    return 1;
}
