"""Commands of the reading room: serve it, and say who may read in it."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from aspirate.cli.bench import JsonFile
from aspirate.cli.display import out, progress, show_figures


def serve(
    places: Annotated[
        list[Path], typer.Argument(metavar="PLACE…", help="Results, a run, a cohort, slides, or a folder of these.")
    ],
    host: Annotated[str, typer.Option(help="Any other than this machine's own demands --readers.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 is any that is free.")] = 8000,
    readers: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Readers with passwords, as `aspirate reader` makes it.")
    ] = None,
    desk: Annotated[Path | None, typer.Option(help="Where readings are kept.", show_default="the first place")] = None,
    blind: Annotated[bool, typer.Option("--blind", help="Begin in reading mode: no result before one's own.")] = False,
    mpp: Annotated[float | None, typer.Option(help="Micrometres per pixel for slides that have none.")] = None,
    method: Annotated[str, typer.Option(help="Whose predictions, where a table has several.")] = "",
    file_names: Annotated[
        bool, typer.Option("--file-names", help="Show names of bare slide files, which may be patients'.")
    ] = False,
) -> None:
    """The reading room, in a browser: slides, evidence, readings."""
    from aspirate.viewer.accounts import read_accounts
    from aspirate.viewer.desk import Desk
    from aspirate.viewer.places import find
    from aspirate.viewer.room import Room
    from aspirate.viewer.server import Address, listen, make_app, refuse_missing_pages, refuse_open_door, run
    from aspirate.viewer.sessions import Sessions

    refuse_missing_pages()
    address, accounts = Address(host, port), read_accounts(readers) if readers else {}
    refuse_open_door(address, accounts)
    served = find(places, mpp, file_names, method)
    sessions, kept = Sessions(accounts, blind), Desk(desk or served.desk)
    with listen(address) as door:
        address = replace(address, port=door.getsockname()[1])
        count = len(served.slides)
        out.print(f"{count} slide{'' if count == 1 else 's'}; what readers enter is kept in {kept.path}", markup=False)
        out.print(f"open {address.url}{'' if accounts else f'?token={sessions.token}'}", markup=False)
        out.print("research use only; stop with Ctrl-C")
        run(make_app(Room(served, kept), sessions, address), door)


def reader(
    file: Annotated[Path, typer.Argument(help="Table of readers, made where it is missing.")],
    name: Annotated[str, typer.Argument(help="As it will stand in readers.csv.")],
    admin: Annotated[bool, typer.Option("--admin", help="May look before reading, and export readings.")] = False,
) -> None:
    """Add a reader of the reading room, or change a password."""
    from aspirate.viewer.accounts import set_account

    password = typer.prompt("password", hide_input=True, confirmation_prompt=True)
    set_account(file, name, "admin" if admin else "reader", password)
    out.print(f"{name} may sign in: aspirate serve … --readers {file}", markup=False)


def bench_serve(
    slide: Annotated[
        Path | None, typer.Argument(help="A slide.", show_default="a synthetic one of 20,000 × 12,500 pixels")
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.2, help="For each turn of each contestant.")] = 3.0,
    requests: Annotated[int, typer.Option(min=0, help="To see whether memory grows; 0 for none.")] = 50_000,
    json_file: JsonFile = None,
) -> None:
    """Serving tiles, beside OpenSlide's deep-zoom generator. To 1, 8 and 32 clients, both served the same way."""
    from tempfile import TemporaryDirectory

    from aspirate.viewer.bench_serve import draw_slide, measure, steps_of

    with TemporaryDirectory() as folder, progress("serving", steps_of(requests=requests), "loads") as advance:
        figures = measure(slide or draw_slide(Path(folder)), seconds, requests=requests, advance=advance)
    show_figures(figures, json_file)
