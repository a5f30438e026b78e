// Runs one journey with the client that oapi-codegen generates.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"

	"example.com/journey/mote"
	openapi_types "github.com/oapi-codegen/runtime/types"
)

var token string

func authorize(_ context.Context, request *http.Request) error {
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return nil
}

// need returns the parsed body of a successful response.
func need[T any](parsed *T, body []byte, err error) *T {
	if err != nil {
		log.Fatal(err)
	}
	if parsed == nil {
		log.Fatalf("refused: %s", body)
	}
	return parsed
}

func of[T any](value T) *T { return &value }

func main() {
	baseURL, email, password := os.Args[1], os.Args[2], os.Args[3]
	ctx := context.Background()
	client, err := mote.NewClientWithResponses(baseURL, mote.WithRequestEditorFn(authorize))
	if err != nil {
		log.Fatal(err)
	}
	registered, err := client.RegisterWithResponse(ctx, mote.RegisterRequest{Email: openapi_types.Email(email), Password: password})
	need(registered.JSON200, registered.Body, err)
	session, err := client.LoginWithResponse(ctx, mote.LoginRequest{Email: email, Password: password})
	token = *need(session.JSON200, session.Body, err).Token
	project, err := client.CreateProjectWithResponse(ctx, nil, mote.CreateProjectRequest{Name: "Journey"})
	slug := &need(project.JSON200, project.Body, err).TenantId

	app := mote.CreateAppRequest{Name: "journey", GitUrl: "", DrainTimeout: of(int32(0))}
	created, err := client.CreateAppWithResponse(ctx, &mote.CreateAppParams{XProject: slug}, app)
	need(created.JSON200, created.Body, err)
	image := mote.DeployAppRequest{Image: of("oci:hello"), MemoryMib: of(mote.DeployAppRequestMemoryMib(512))}
	made, err := client.DeployAppWithResponse(ctx, "journey", &mote.DeployAppParams{XProject: slug}, image)
	job := need(made.JSON200, made.Body, err).JobId
	wait := mote.GetDeploymentParams{XProject: slug, Wait: of("running"), Timeout: of(uint32(60))}
	deployment, err := client.GetDeploymentWithResponse(ctx, "journey", job, &wait)
	status := need(deployment.JSON200, deployment.Body, err).Status

	// Not StreamDeploymentLogsWithResponse, which would read the endless stream to its end.
	stream, err := client.StreamDeploymentLogs(ctx, "journey", job, &mote.StreamDeploymentLogsParams{XProject: slug})
	if err != nil {
		log.Fatal(err)
	}
	logs := false
	for lines := bufio.NewScanner(stream.Body); !logs && lines.Scan(); {
		logs = lines.Text() == "event: snapshot"
	}
	stream.Body.Close()

	data := mote.CreateVolumeRequest{Name: "data", SizeMib: 1024}
	volume, err := client.CreateVolumeWithResponse(ctx, &mote.CreateVolumeParams{XProject: slug}, data)
	id := need(volume.JSON200, volume.Body, err).Id
	listed, err := client.ListVolumesWithResponse(ctx, &mote.ListVolumesParams{XProject: slug})
	names := []string{}
	for _, one := range *need(listed.JSON200, listed.Body, err) {
		names = append(names, one.Name)
	}
	removed, err := client.DeleteVolumeWithResponse(ctx, id, &mote.DeleteVolumeParams{XProject: slug})
	need(removed.JSON200, removed.Body, err)
	scopes := []mote.CreateTokenRequestScopes{"read"}
	pat, err := client.CreateTokenWithResponse(ctx, nil, mote.CreateTokenRequest{Name: "journey", Scopes: &scopes})
	revoked, err := client.RevokeTokenWithResponse(ctx, need(pat.JSON200, pat.Body, err).Id.String(), nil)
	need(revoked.JSON200, revoked.Body, err)
	refused, err := client.CreateAppWithResponse(ctx, &mote.CreateAppParams{XProject: slug}, app)
	if err != nil || refused.JSON409 == nil {
		log.Fatalf("a second app of that name was answered with %s: %v", refused.Status(), err)
	}
	failure := refused.JSON409
	ended, err := client.DeleteAppWithResponse(ctx, "journey", &mote.DeleteAppParams{XProject: slug})
	need(ended.JSON200, ended.Body, err)

	seen, err := json.Marshal(map[string]any{"status": status, "logs": logs, "volumes": names, "refused": failure.Code})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.TrimSpace(string(seen)))
}
