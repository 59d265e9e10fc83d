"""``controller serve``: this machine's runners, offered to controllers elsewhere (host.proto)."""
