"""What `hostctl --help` prints, written out: it is read often and must appear at once."""

HELP = """\
usage: hostctl [--root DIR] [--json] [-q] [-v] [--no-color] COMMAND ...

Lets a sandbox use git on what you allow, with nothing in it worth stealing.

start here
  demo       offline tour: shows what is allowed and what is refused
  init       set up a first git server, with a login you have
  up         start broker and hostd on this machine (idempotent)
  down       stop both
  restart    both anew; the sandboxes go on
  status     are they running?
  reload     read configuration and policies again, without a restart

sandboxes
  run        start a sandbox and a command in it
  attach     serve git to a container that something else started
  ls         list the sandboxes; --watch: what each does now
  inspect    everything about one sandbox
  exec       another command in a running sandbox
  git        fetch, push or ls-remote for a sandbox, through the git gate
  diff       what a sandbox changed, compared outside of it
  cp         copy files into a sandbox, or out of it
  logs       what the command of `run -d` printed
  rescue     save what was pushed nowhere: a bundle and a patch
  stop       end a sandbox and keep its files
  start      make a stopped sandbox run again
  rm         end a sandbox and remove everything of it

what is allowed
  policy     make, check and compare policies; explain what they decide
  session    renew and revoke the sessions of sandboxes
  upstream   the git servers the broker may connect to
  cred       the credentials the broker uses there
  host       the hosts that may grant sessions, and this one's key
  broker     replace the broker's key

what is enforced
  doctor     what is missing or unsafe on this host, and how to fix it
  verify     try from inside a sandbox what must not work in it

what happened
  activity   what a sandbox did, in one page
  audit      read and verify the audit journals
  explain    what an error code or a request id means
  completion print a completion script for bash, zsh or fish

options
  --root DIR   prefix of every path (default /, or GITMOAT_ROOT)
  --json       one JSON object with a "schema" key on stdout
  -q, --quiet  no progress, no success line;  ls -q: only ids
  -v, -vv      more detail; -vv shows a traceback on failure
  --no-color   no colour (NO_COLOR is honoured too)
  --version    print the version, and nothing else

`hostctl COMMAND --help` tells more about one command.
"""
