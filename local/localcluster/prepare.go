package localcluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/util/keyutil"

	"pinfold.dev/pinfold/kube/admission"
	"pinfold.dev/pinfold/local/localnode"
)

// prepare creates everything that the components need before they start.
func (c *Cluster) prepare() error {
	if err := c.takeDirectory(); err != nil {
		return err
	}
	if err := c.reservePorts(); err != nil {
		return err
	}
	if c.config.RealNode != nil {
		if err := c.planNode(); err != nil {
			return err
		}
	}
	ca, err := newAuthority()
	if err != nil {
		return err
	}
	if err := c.writeCertificates(ca); err != nil {
		return err
	}
	if err := c.writeKubeconfigs(ca); err != nil {
		return err
	}
	return c.writeConfigurations()
}

func (c *Cluster) reservePorts() error {
	names := []string{APIServer, ControllerManager, Scheduler}
	if c.config.RealNode != nil {
		names = append(names, localnode.Registry)
	}
	for _, name := range names {
		port, err := ReservePort()
		if err != nil {
			return err
		}
		c.ports[name] = port
	}
	return nil
}

func (c *Cluster) writeConfigurations() error {
	if err := c.ConfigureScheduler(c.config.SchedulerConfig); err != nil {
		return err
	}
	return writeFile(c.layout.path("config", kwokConfigName), kwokConfig())
}

// takeDirectory locks and empties the data directory.
func (c *Cluster) takeDirectory() error {
	lock, err := claimAndLock(c.layout.dir)
	if err != nil {
		return err
	}
	c.lock = lock
	// An absolute path without symbolic links, which cannot be redirected later.
	c.layout.dir = filepath.Dir(lock.file.Name())
	if err := c.layout.create(c.config.Logger); err != nil {
		return err
	}
	return c.saveState()
}

func (c *Cluster) writeCertificates(ca authority) error {
	accounts, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return fmt.Errorf("create the key of service accounts: %w", err)
	}
	proxy, err := newAuthority()
	if err != nil {
		return err
	}
	files := map[string][]byte{
		c.layout.path("pki", "front-proxy-ca.crt"):  proxy.pem(),
		c.layout.path("pki", "ca.crt"):              ca.pem(),
		c.layout.path("pki", "service-account.key"): accounts,
	}
	pairs := map[string]keyPair{} // by component
	for _, name := range []string{APIServer, ControllerManager, Scheduler} {
		if pairs[name], err = ca.server(name); err != nil {
			return err
		}
	}
	if c.node != nil {
		var err1, err2 error
		pairs[localnode.Kubelet], err1 = ca.server(localnode.Kubelet, c.node.Address().AsSlice())
		pairs[kubeletClientName], err2 = ca.client(kubeletClientUser)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
	}
	for name, pair := range pairs {
		certificate, key := c.layout.certificate(name)
		files[certificate], files[key] = pair.certificate, pair.key
	}
	for path, data := range files {
		if err := writeFile(path, data); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) writeKubeconfigs(ca authority) error {
	users := map[string][]string{ // user and groups, by component
		Scheduler:         {schedulerUser},
		ControllerManager: {controllerManagerUser},
		KWOK:              {kwokUser},
		Agents:            {agentsUser},
	}
	if c.node != nil {
		users[localnode.Kubelet] = []string{"system:node:" + localnode.Name, "system:nodes"}
		users[localnode.Agent] = []string{admission.AgentUser(localnode.Name), admission.AgentGroup}
	}
	for component, user := range users {
		pair, err := ca.client(user[0], user[1:]...)
		if err != nil {
			return err
		}
		if err := writeKubeconfig(c.layout.kubeconfig(component), c.URL(APIServer), ca.pem(), pair); err != nil {
			return err
		}
	}
	admin, err := ca.client(adminUser, adminGroup)
	if err != nil {
		return err
	}
	if err := writeKubeconfig(c.Kubeconfig(), c.URL(APIServer), ca.pem(), admin); err != nil {
		return err
	}
	c.admin, err = clientConfig(c.Kubeconfig())
	return err
}

// environment returns the environment of the components. It contains nothing that could make them
// read configuration of the user or of another cluster.
func (c *Cluster) environment() []string {
	environment := []string{
		"HOME=" + filepath.Join(c.layout.dir, "config"),
		"KWOK_WORKDIR=" + filepath.Join(c.layout.dir, "config"),
	}
	for _, name := range []string{"PATH", "TMPDIR", "TZ", "GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT"} {
		if value, ok := os.LookupEnv(name); ok {
			environment = append(environment, name+"="+value)
		}
	}
	return environment
}
