class Dataset:
    pass


class DataLoader:
    def __init__(self, dataset, shuffle=False, batch_size=1, num_workers=0, persistent_workers=False, collate_fn=None):
        self.dataset, self.batch_size, self.collate_fn = dataset, batch_size, collate_fn

    def __iter__(self):
        for first in range(0, len(self.dataset), self.batch_size):
            last = min(len(self.dataset), first + self.batch_size)
            yield self.collate_fn([self.dataset[k] for k in range(first, last)])

    def __len__(self):
        return -(-len(self.dataset) // self.batch_size)
