"""Runs one journey with the client that openapi-python-client generates."""

import json
import sys

from mote_client import AuthenticatedClient, Client
from mote_client.api.account import create_token, revoke_token
from mote_client.api.apps import create_app, delete_app, deploy_app
from mote_client.api.authentication import login, register
from mote_client.api.deployments import get_deployment, stream_deployment_logs
from mote_client.api.projects import create_project
from mote_client.api.volumes import create_volume, delete_volume, list_volumes
from mote_client.models import (
    CreateAppRequest,
    CreateProjectRequest,
    CreateTokenRequest,
    CreateTokenRequestScopesType0Item,
    CreateVolumeRequest,
    DeployAppRequest,
    DeployAppRequestMemoryMibType0,
    LoginRequest,
    RegisterRequest,
)

base_url, email, password = sys.argv[1:]


def need(answer):
    """Returns the parsed body of a successful response."""
    if answer.status_code != 200:
        raise SystemExit(f"{answer.status_code}: {answer.content!r}")
    return answer.parsed


anonymous = Client(base_url=base_url)
account = RegisterRequest(email=email, password=password, captcha_id="", captcha_answer="")
need(register.sync_detailed(client=anonymous, body=account))
session = need(login.sync_detailed(client=anonymous, body=LoginRequest(email=email, password=password)))
client = AuthenticatedClient(base_url=base_url, token=session.token, timeout=90)
project = need(create_project.sync_detailed(client=client, body=CreateProjectRequest(name="Journey")))
inside = {"client": client, "x_project": project.tenant_id}
app = CreateAppRequest(name="journey", git_url="", drain_timeout=0)
need(create_app.sync_detailed(**inside, body=app))
image = DeployAppRequest(image="oci:hello", memory_mib=DeployAppRequestMemoryMibType0.VALUE_512)
made = need(deploy_app.sync_detailed("journey", **inside, body=image))
deployment = need(get_deployment.sync_detailed("journey", made.job_id, **inside, wait="running", timeout=60))
# Not stream_deployment_logs.sync_detailed, which would read the endless stream to its end.
stream = stream_deployment_logs._get_kwargs("journey", made.job_id, x_project=project.tenant_id)
with client.get_httpx_client().stream(**stream) as response:
    logs = any(line == "event: snapshot" for line, _ in zip(response.iter_lines(), range(10)))
volume = need(create_volume.sync_detailed(**inside, body=CreateVolumeRequest(name="data", size_mib=1024)))
volumes = need(list_volumes.sync_detailed(**inside))
need(delete_volume.sync_detailed(volume.id, **inside))
scopes = [CreateTokenRequestScopesType0Item.READ]
token = need(create_token.sync_detailed(client=client, body=CreateTokenRequest(name="journey", scopes=scopes)))
need(revoke_token.sync_detailed(token.id, client=client))
refused = create_app.sync_detailed(**inside, body=app).parsed
need(delete_app.sync_detailed("journey", **inside))
seen = {
    "status": str(deployment.status),
    "logs": logs,
    "volumes": [one.name for one in volumes],
    "refused": refused.code,
}
print(json.dumps(seen))
