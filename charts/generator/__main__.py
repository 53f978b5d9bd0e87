"""`make chart`: writes what is generated of charts/equipoise."""

from charts.generator.chart import CHART, generated_files, stale_files


def main() -> None:
    files = generated_files()
    for path in stale_files(files):
        path.unlink()
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    print(f"{len(files)} files in {CHART.name}")


if __name__ == "__main__":
    main()
