use betz_spiking::*;
fn main() -> Result<()> {
    let a: Vec<String> = std::env::args().collect();
    let n = |i: usize| a[i].parse::<f64>().unwrap();
    let t: usize = std::env::var("T").map_or(1, |t| t.parse().unwrap());
    let (net, secs) = match a[1].as_str() {
        "ring" => (models::galbraith::ring(n(2) as u32, n(3) as u32)?, 10.0),
        "full" => (models::galbraith::full(n(2) as u32, n(3) as u32)?, 10.0),
        "random" => (models::galbraith::random(n(2) as u32, n(3) as u64, 0, 1)?, 10.0),
        m => (models::by_name(m, n(2), 1)?, n(3)),
    };
    let mut e = Engine::build(&net, &Options { threads: t, time_phases: true, ..Options::default() }, &())?;
    println!("{}", e.plan());
    println!("build {:.3} fixed {:.3e} syn hash {:x}", e.build_seconds(), e.fixed_point_use(), e.synapse_hash());
    if a.get(4).is_some() { e.run(1000, &())?; }
    let r = e.run((secs * 1000.0 / net.step_ms) as u64, &())?;
    println!("{r:#?}");
    Ok(())
}
