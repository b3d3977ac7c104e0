"""A CNN in PyTorch on images of ten digits, four processes: cnn.py DIR INDEX STEPS PORT PORT PORT PORT.

STEPS are the cluster's. Each process sees mostly its own digits. The images are drawn here; P2PML_MNIST names a folder with the idx files of MNIST instead."""
import gzip, os, sys
import torch
import p2pml

folder, index, steps, ports = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
torch.set_num_threads(1)
torch.manual_seed(index)


def digits(count, generator):
    """One blurred shape per class, shifted and noisy."""
    shapes = torch.nn.functional.interpolate(torch.rand(10, 1, 5, 5, generator=torch.Generator().manual_seed(7)), size=(16, 16))
    labels = torch.randint(10, (count,), generator=generator)
    images = torch.stack([torch.roll(shapes[y], tuple(torch.randint(-1, 2, (2,), generator=generator).tolist()), (1, 2))
                          for y in labels])
    return images + 0.3 * torch.randn(images.shape, generator=generator), labels


def idx(name, header):
    path = os.path.join(os.environ["P2PML_MNIST"], name)
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as f:
        return torch.frombuffer(bytearray(f.read()[header:]), dtype=torch.uint8)


if "P2PML_MNIST" in os.environ:
    images, labels = idx("train-images-idx3-ubyte", 16).view(-1, 1, 28, 28) / 255, idx("train-labels-idx1-ubyte", 8).long()
    images, labels, test, truth = images[:-2000], labels[:-2000], images[-2000:], labels[-2000:]
else:
    images, labels = digits(4000, torch.Generator().manual_seed(1))
    test, truth = digits(1000, torch.Generator().manual_seed(2))
mine = (labels % 4 == index) | (torch.rand(len(labels), generator=torch.Generator().manual_seed(index)) < 0.02)
images, labels = images[mine], labels[mine]

model = torch.nn.Sequential(torch.nn.Conv2d(1, 8, 5, 2), torch.nn.ReLU(), torch.nn.Conv2d(8, 16, 3, 2), torch.nn.ReLU(),
                            torch.nn.AdaptiveAvgPool2d(3), torch.nn.Flatten(), torch.nn.Linear(144, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.2, steps)
peers = [f"127.0.0.1:{p}" for p in ports if p != ports[index]]
node = p2pml.join(peers, dir=f"{folder}/{index}", listen=f"127.0.0.1:{ports[index]}")
together = p2pml.attach(node, model, optimizer, scheduler=scheduler, steps=steps)
while not together.done:  # in the cluster's steps: a process may be killed and started again
    batch = torch.randint(len(labels), (32,))
    torch.nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
with torch.no_grad():
    print("accuracy", (model(test).argmax(1) == truth).float().mean().item(), flush=True)
