"""Tunes a transfer with an optimizer written in Python: doubles the streams while that brings a quarter more."""

import edt


class Doubling:
    """Keeps the best number of streams seen, and tries twice as many until the gain stays below 25 %."""

    def __init__(self) -> None:
        self.best = 1
        self.throughput = 0.0

    def start(self, policy: edt.Policy) -> edt.Decision:
        return edt.Decision.uniform(1, f"at most {policy.limit.network} streams, starting with one")

    def decide(self, observation: edt.Observation) -> edt.Decision:
        streams, throughput = observation.applied.concurrency.network, observation.throughput.write
        if streams <= self.best and self.throughput:
            return edt.Decision.uniform(self.best, "more streams brought too little")
        if throughput < 1.25 * self.throughput:
            return edt.Decision.uniform(self.best, f"{streams} streams brought less than 25 % more")
        self.best, self.throughput = streams, throughput
        return edt.Decision.uniform(2 * streams, f"{streams} streams are the best so far")


def main() -> None:
    report = edt.copy("zero:8x32MiB", "null:", optimizer=Doubling(), limit_rate="200MB", interval=0.2)
    for tuned in report.decisions:
        print(f"{tuned.elapsed_s:6.1f} s  {tuned.decision.concurrency.network:3} streams  {tuned.decision.reason}")


if __name__ == "__main__":
    main()
