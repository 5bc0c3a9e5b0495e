"""`relevanced password`: the hash of a password, for the users of a web configuration file."""

import secrets
import sys

import click

from ..http import bcrypt_hashed, find_crypt, hashed

SALT_BYTES = 16


@click.command("password")
@click.option(
    "--bcrypt", is_flag=True, help="As bcrypt, for a file that exporters of Prometheus read too."
)
def password_command(bcrypt: bool) -> None:
    """Print the hash of a password, to be written behind a user in `basic_auth_users`.

    The password is asked for twice on a terminal, and else is the first line of standard input.
    """
    if sys.stdin.isatty():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise click.ClickException("no password: give it on standard input, or at the prompt")
    salt = secrets.token_bytes(SALT_BYTES)
    if not bcrypt:
        click.echo(hashed(password.encode(), salt))
        return
    crypt = find_crypt()
    if crypt is None:
        raise click.ClickException("this system's crypt does not know bcrypt: leave out --bcrypt")
    try:
        click.echo(bcrypt_hashed(password.encode(), salt, crypt))
    except ValueError as error:
        raise click.ClickException(str(error)) from error
