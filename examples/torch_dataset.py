"""Trains a PyTorch model on the splits of this package, read as a PyTorch Dataset.

  pip install torch && python examples/torch_dataset.py

A linear model of a configuration's columns, with a pairwise logistic loss: a start for
models of your own.  `tpugraphs.open` takes a folder of splits in place of 'sample'.
"""

import sys

try:
    import torch
except ImportError:
    sys.exit('error: torch is not installed: pip install torch')

import tpugraphs  # before TensorFlow, if that is imported, too


class Kernels(torch.utils.data.Dataset):
    """Kernels of a split: float32 [c, 24] configurations, float32 [c] log runtimes."""

    def __init__(self, root: str, split: str, most: int = 200):
        self._records = tpugraphs.open(root, split)[:most]

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        record = self._records[number]
        configs = torch.from_numpy(record.config_feat.astype('float32')).log1p()
        return configs, torch.from_numpy(record.config_runtime.astype('float32')).log()


def loss(scores: torch.Tensor, runtimes: torch.Tensor) -> torch.Tensor:
    """Averages log(1 + exp(s_j - s_i)) over pairs with y_i > y_j: 2 x [c] -> scalar."""
    slower = runtimes[:, None] > runtimes[None, :]
    pairs = torch.nn.functional.softplus(scores[None, :] - scores[:, None])
    return (pairs * slower).sum() / slower.sum().clamp(min=1)


def main() -> None:
    """Prints the loss on validation kernels before and after two epochs."""
    train, valid = Kernels('sample', 'train'), Kernels('sample', 'valid')
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(24, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)
    )
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for epoch in range(3):
        with torch.no_grad():
            losses = [loss(model(x)[:, 0], y) for x, y in valid]
        print(f'epoch {epoch}: {torch.stack(losses).mean():.3f}')
        for number in torch.randperm(len(train)):
            configs, runtimes = train[int(number)]
            optimizer.zero_grad()
            loss(model(configs)[:, 0], runtimes).backward()
            optimizer.step()


if __name__ == '__main__':
    main()
