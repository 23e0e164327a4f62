"""Succeeds when a test server carries out a statement, so that what follows need not wait.

    answers.py trino PORT
    answers.py iceberg PORT MASTER_PORT
    answers.py snowflake PORT
"""

import json
import sys
import urllib.parse
import urllib.request

# Without a proxy, whatever the environment says: the servers are on this machine.
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(port, path, body=None, **headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    url = path if path.startswith("http:") else "http://127.0.0.1:%s%s" % (port, path)
    with opener.open(urllib.request.Request(url, body, headers), timeout=20) as answer:
        return json.load(answer)


def trino(port):
    # It also makes the schema that the address names.
    state = ask(port, "/v1/statement", b"CREATE SCHEMA IF NOT EXISTS iceberg.default", X_Trino_User="test")
    while "nextUri" in state:
        state = ask(port, state["nextUri"], X_Trino_User="test")
    if state["stats"]["state"] != "FINISHED":
        sys.exit(json.dumps(state))


def iceberg(port, master):
    form = {"grant_type": "client_credentials", "client_id": "admin", "client_secret": "adminsecret", "scope": "PRINCIPAL_ROLE:ALL"}
    token = ask(port, "/v1/oauth/tokens", urllib.parse.urlencode(form).encode())["access_token"]
    # Until the master can place data, the first reads after a crash may get HTTP 500.
    if "fid" not in ask(master, "/dir/assign"):
        sys.exit("no volume takes data yet")
    ask(port, "/v1/warehouse/namespaces", Authorization="Bearer " + token)


def snowflake(port):
    def post(path, body, **headers):
        return ask(port, path, json.dumps(body).encode(), Content_Type="application/json", **headers)

    token = post("/session/v1/login-request", {"data": {"SESSION_PARAMETERS": {}}})["data"]["token"]
    signed = {"Authorization": 'Snowflake Token="%s"' % token}
    answer = post("/queries/v1/query-request", {"sqlText": "SELECT 1"}, **signed)
    post("/session?delete=true", {}, **signed)
    if not answer["success"]:
        sys.exit(json.dumps(answer))


{"trino": trino, "iceberg": iceberg, "snowflake": snowflake}[sys.argv[1]](*sys.argv[2:])
