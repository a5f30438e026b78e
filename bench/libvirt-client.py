"""Calls libvirtd for bench/libvirt.ts: each input line is a call, each output line the result of one.

Calls: {"do": "define" | "stats" | "create" | "suspend" | "resume" | "destroy", "name": str, "count": int}
Results: {"ms": float} or {"error": str}
"""
import json
import sys
import time

try:
    import libvirt
except ImportError:
    sys.exit("python3-libvirt is not installed: npm run bench -- --install-peers")

# The same VM as the product's driver creates, without anything for QEMU to start.
MACHINE = """<domain type='qemu'><name>{}</name><memory unit='MiB'>128</memory><vcpu>1</vcpu>
<os><type arch='x86_64' machine='microvm'>hvm</type></os><features><acpi/></features>
<cpu mode='custom' match='exact'><model>qemu64</model></cpu>
<devices><controller type='usb' model='none'/><memballoon model='none'/></devices></domain>"""


def calls(connection):
    def define(ask):
        for n in range(ask["count"]):
            connection.defineXML(MACHINE.format(f"{ask['name']}-{n}"))

    def stats(ask):
        found = len(connection.getAllDomainStats())
        if found != ask["count"]:
            raise RuntimeError(f"getAllDomainStats reported {found} VMs instead of {ask['count']}")

    def create(ask):
        connection.createXML(MACHINE.format(ask["name"]))

    def on_domain(method):
        return lambda ask: getattr(connection.lookupByName(ask["name"]), method)()

    verbs = {verb: on_domain(verb) for verb in ("suspend", "resume", "destroy")}
    return {"define": define, "stats": stats, "create": create, **verbs}


def main():
    libvirt.registerErrorHandler(lambda *_: None, None)
    known = calls(libvirt.open(sys.argv[1]))
    for line in sys.stdin:
        ask = json.loads(line)
        began = time.perf_counter()
        try:
            known[ask["do"]](ask)
            answer = {"ms": (time.perf_counter() - began) * 1000}
        except Exception as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


main()
