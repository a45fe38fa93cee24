package localcluster

import (
	"errors"
	"os"
	"path/filepath"
	"time"

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
	ca, err := newAuthority(time.Now())
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
	etcd, err := etcdConfig(c.layout)
	if err != nil {
		return err
	}
	scheduler, err := schedulerConfig(c.config.SchedulerConfig, c.layout.kubeconfig(Scheduler))
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		etcdConfigName:      etcd,
		schedulerConfigName: scheduler,
		kwokConfigName:      kwokConfig(),
	} {
		if err := writeFile(c.layout.path("config", name), data); err != nil {
			return err
		}
	}
	return nil
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

func (c *Cluster) writeCertificates(ca *authority) error {
	private, public, err := newServiceAccountKey()
	if err != nil {
		return err
	}
	proxy, err := newAuthority(ca.now)
	if err != nil {
		return err
	}
	files := map[string][]byte{
		c.layout.path("pki", "front-proxy-ca.crt"):  proxy.certificate,
		c.layout.path("pki", "ca.crt"):              ca.certificate,
		c.layout.path("pki", "service-account.key"): private,
		c.layout.path("pki", "service-account.pub"): public,
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

func (c *Cluster) writeKubeconfigs(ca *authority) error {
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
		config := newKubeconfig(c.URL(APIServer), ca.certificate, pair)
		if err := writeKubeconfig(c.layout.kubeconfig(component), config); err != nil {
			return err
		}
	}
	admin, err := ca.client(adminUser, adminGroup)
	if err != nil {
		return err
	}
	config := newKubeconfig(c.URL(APIServer), ca.certificate, admin)
	if err := writeKubeconfig(c.Kubeconfig(), config); err != nil {
		return err
	}
	if c.admin, err = clientConfig(config); err != nil {
		return err
	}
	if c.config.ExportKubeconfig == "" {
		return nil
	}
	return c.layout.exportKubeconfig(c.config.ExportKubeconfig, config)
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
